/* `cubby export`: turns a container box into one image of one layer. */
#include <jansson.h>

#include "cli/cli.h"
#include "cli/rest/news.h"

int command_export(struct cli *cli, int argc, char **argv) {
    bool as_json = false; /* json_options */
    struct err err = {0};
    json_auto_t *json = NULL;
    argc = option_parse(cli, argc, argv, &as_json);
    if (argc != 1)
        option_fail(cli, "%s", BOX_MISSING);
    const char *path = remote_path(cli, argv[0], "/export", NULL);
    struct news *news = news_begin(cli, NULL, remote_box(cli, argv[0]));
    int r = remote_json(cli, "POST", path, NULL, &json, &err);
    news_end(news);
    cli_must(r, &err);
    const char *image = json_string_value(json_object_get(json, "image"));
    long long ended = (long long)json_integer_value(json_object_get(json, "processes_ended"));
    if (as_json)
        remote_print(json);
    else if (image)
        printf("%s\n", image);
    else
        fprintf(stderr, "cubby: nothing has changed since the box's image was made\n");
    if (!as_json && ended)
        fprintf(stderr, "cubby: %lld process%s ended\n", ended, ended == 1 ? " was" : "es were");
    return 0;
}
