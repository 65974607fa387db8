/* `cubby version`: prints our version and the daemon's, or why that is unknown. */
#include <jansson.h>

#include "cli/cli.h"
#include "cli/rest/list.h"
#include "wire/proto.h"

int command_version(struct cli *cli, int argc, char **argv) {
    bool as_json = false; /* json_options */
    struct err err = {0};
    json_auto_t *info = NULL;
    if (option_parse(cli, argc, argv, &as_json) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    remote_json(cli, "GET", "/v1/info", NULL, &info, &err);
    const char *daemon = json_string_value(json_object_get(info, "version"));
    if (!as_json) {
        printf("cubby %s (wire %d)\n", CUBBY_VERSION, PROTO_VERSION);
        if (daemon)
            printf("cubbyd %s at %s\n", daemon, remote_url());
        else
            printf("cubbyd: unknown (%s)\n", err.code ? rest_shown(cli, err.text) : "its answer has no version");
    } else {
        json_auto_t *json = json_pack("{s:s, s:i, s:s?}", "version", CUBBY_VERSION, "wire_version", PROTO_VERSION,
                                      "daemon_version", daemon);
        remote_print(json);
    }
    return 0;
}
