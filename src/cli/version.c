/* `cubby version`: ours, and the daemon's, or why that is not known. */
#include <jansson.h>
#include <string.h>

#include "cli/cli.h"
#include "wire/proto.h"

struct version_values {
    bool json;
};

const struct option_row version_options[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct version_values, json), NULL, "as JSON"},
    {.name = NULL},
};

/* The reason as it may be shown: it can hold words of whatever answered. */
static const char *version_why(struct cli *cli, const struct err *err) {
    autobuf shown = buf_max(8192);
    text_shown(&shown, err->text, strlen(err->text));
    return buf_cstr(&shown) && shown.len ? arena_strdup(&cli->arena, buf_cstr(&shown)) : "its answer has no version";
}

int command_version(struct cli *cli, int argc, char **argv) {
    struct version_values values = {0};
    struct err err = {0};
    json_t *info = NULL;
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    remote_json(cli, "GET", "/v1/info", NULL, &info, &err);
    const char *daemon = json_string_value(json_object_get(info, "version"));
    if (!values.json) {
        printf("cubby %s (wire %d)\n", CUBBY_VERSION, PROTO_VERSION);
        if (daemon)
            printf("cubbyd %s at %s\n", daemon, remote_url());
        else
            printf("cubbyd: unknown (%s)\n", version_why(cli, &err));
    } else {
        autobuf out;
        struct json json;
        buf_init(&out, 64 << 10);
        json_init(&json, &out);
        json_open(&json, '{');
        json_put_str(&json, "version", CUBBY_VERSION);
        json_put_int(&json, "wire_version", PROTO_VERSION);
        json_put_str(&json, "daemon_version", daemon);
        json_close(&json, '}');
        printf("%.*s\n", (int)out.len, (const char *)out.data);
    }
    json_decref(info);
    return 0;
}
