/* One member of a JSON answer, by its path: `--query boxes.0.id`. Called by `cubby inspect` and `cubby api`. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

int rest_query(struct cli *cli, const json_t *json, const char *path) {
    struct err err = {0};
    const char *at = path + (*path == '.');
    while (json && *at) {
        char name[256];
        uint64_t index;
        size_t len = strcspn(at, ".");
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        json = json_is_array(json) && text_u64(name, UINT32_MAX, &index) ? json_array_get(json, (size_t)index)
                                                                         : json_object_get(json, name);
        at += len + (at[len] == '.');
    }
    if (!json)
        return cli_fail((err_set(&err, ERR_NOT_FOUND, "the answer has no '%s'", path), &err));
    if (json_is_string(json) && isatty(STDOUT_FILENO))
        printf("%s\n", rest_shown(cli, json_string_value(json)));
    else if (json_is_string(json))
        printf("%s\n", json_string_value(json));
    else
        remote_print(json);
    return 0;
}
