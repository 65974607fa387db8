/* `cubby skill`: skills of a user and of their agents, and those that users share. Asks the daemon. Invariant: a name
 * becomes a part of a path only percent-encoded, and what a daemon says reaches a terminal only by table and
 * text_shown. */
#include <inttypes.h>
#include <jansson.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"
#include "cli/rest/skillzip.h"
#include "cli/file/edit.h"
#include "cli/upload.h"
#include "http/client/client.h"

extern char **environ;

struct skill_values {
    const char *box, *agent, *user, *type, *version, *description, *tags, *old_text, *new_text;
    uint64_t limit;
    bool base, from_base, to_base, replace, private_entry, mine, versions, json;
};

const struct row skill_options[] = {
    OPTION("agent", 'a', TEXT, struct skill_values, agent, "NAME",
           "agent whose skills are meant, in its box of --user"),
    OPTION("user", 'u', TEXT, struct skill_values, user, "NAME",
           "with --agent: owner of the box (default: the token's user)"),
    OPTION("box", 0, TEXT, struct skill_values, box, "ID", "use this box instead"),
    OPTION("base", 0, BOOL, struct skill_values, base, NULL,
           "upload, rm: the agent's own skills, which all of its users see"),
    OPTION("from-base", 0, BOOL, struct skill_values, from_base, NULL,
           "sync: overwrite the user's copy with the agent's version"),
    OPTION("to-base", 0, BOOL, struct skill_values, to_base, NULL,
           "sync: overwrite the agent's version with the user's copy"),
    OPTION("old", 0, TEXT, struct skill_values, old_text, "TEXT",
           "edit: text to replace, which must be in the file once"),
    OPTION("new", 0, TEXT, struct skill_values, new_text, "TEXT", "edit: its replacement"),
    OPTION_OF("type", 0, TEXT, struct skill_values, type, "skill|agent", "kind of what is meant (default: skill)"),
    OPTION("version", 0, TEXT, struct skill_values, version, "TEXT", "publish: its version (default: the next number)"),
    OPTION("description", 0, TEXT, struct skill_values, description, "TEXT", "publish: instead of its own"),
    OPTION("tags", 0, TEXT, struct skill_values, tags, "A,B", "publish: instead of its own"),
    OPTION("private", 0, BOOL, struct skill_values, private_entry, NULL, "publish: only for yourself"),
    OPTION("replace", 0, BOOL, struct skill_values, replace, NULL, "install: replace what is there"),
    OPTION("mine", 0, BOOL, struct skill_values, mine, NULL, "search: only your own, private ones too"),
    OPTION("versions", 0, BOOL, struct skill_values, versions, NULL, "search: older versions too"),
    OPTION("limit", 0, INT, struct skill_values, limit, "N", "search: show at most N (default: 100)"),
    OPTION("json", 0, BOOL, struct skill_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

struct skill_box {
    char id[17];
    bool agent; /* it has one: its skills are at /skills */
};

/* ---- shared by the actions ---- */

static const char *skill_text_of(const json_t *object, const char *key) {
    const char *text = rest_text(object, key);
    return text ? text : "";
}

/* The box that is meant: named, or that of a user for an agent, which is made if it does not exist. */
static struct skill_box skill_box_find(struct cli *cli, const struct skill_values *values) {
    struct skill_box box = {.agent = false};
    struct err err = {0};
    autobuf body;
    if (!values->box == !values->agent)
        option_fail(cli, "missing --agent NAME or --box ID");
    REST_BODY(&body, {"agent", values->agent}, {"user", values->user});
    json_auto_t *json = values->box ? rest_need(cli, "GET", remote_path(cli, values->box, "", NULL), NULL)
                                    : rest_need(cli, "POST", "/v1/boxes", &body);
    const char *id = skill_text_of(json, "id");
    if (!text_id(id))
        cli_must(err_set(&err, ERR_PROTOCOL, "%s sent a box without an id", remote_url()), &err);
    memcpy(box.id, id, sizeof box.id);
    box.agent = json_is_string(json_object_get(json, "agent"));
    return box;
}

/* What the options are about: "skills", or "agents". */
static const char *skill_kinds(const struct skill_values *values) {
    return values->type && strcmp(values->type, "agent") == 0 ? "agents" : "skills";
}

/* All of them in a box, or one. */
static const char *skill_path(struct cli *cli, const struct skill_box *box, const struct skill_values *values,
                              const char *encoded) {
    return remote_path(
        cli, box->id,
        arena_printf(&cli->arena, "/%s%s%s", skill_kinds(values), encoded ? "/" : "", encoded ? encoded : ""), NULL);
}

static int skill_finish(const struct skill_values *values, json_t *json, const char *line) {
    if (values->json && json)
        remote_print(json);
    else if (line)
        printf("%s\n", line);
    json_decref(json);
    return 0;
}

/* ---- upload ---- */

/* A ZIP as it is, a directory as one. */
static int skill_upload_open(const char *path, int *ret_fd, struct err *err) {
    struct stat status;
    autofd fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "%.300s", path);
    if (S_ISREG(status.st_mode)) {
        *ret_fd = fd_take(&fd);
        return 0;
    }
    if (!S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "%.300s is neither a directory nor a ZIP archive", path);
    const char *where = getenv("TMPDIR");
    char name[4096];
    snprintf(name, sizeof name, "%s/cubby-skill.XXXXXX", where && *where ? where : "/tmp");
    autofd made = mkostemp(name, O_CLOEXEC);
    if (made < 0)
        return err_errno(err, errno, "%.300s", name);
    unlink(name);
    int code = skillzip_pack(path, made, err);
    if (code == 0)
        *ret_fd = fd_take(&made);
    return code;
}

static int skill_upload_one(struct cli *cli, const struct skill_values *values, const struct skill_box *box,
                            const char *path, struct err *err) {
    json_t *name;
    size_t i;
    autofd fd = -1;
    struct stat status;
    autobuf answer = buf_max(16u << 20);
    TRY(skill_upload_open(path, &fd, err));
    if (fstat(fd, &status) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_errno(err, errno, "cannot read the archive");
    struct upload upload = {
        .fd = fd, .length = status.st_size, .what = "the archive", .type = "application/zip", .quiet = true};
    TRY(upload_send(cli, &upload, remote_path(cli, box->id, values->base ? "/skills?base=1" : "/skills", NULL), &answer,
                    err));
    json_t *json = json_loadb((const char *)answer.data, answer.len, 0, NULL);
    if (!json)
        return err_set(err, ERR_PROTOCOL, "%s sent an answer that is not JSON", remote_url());
    json_array_foreach(json_object_get(json, "skills"), i, name) {
        if (!values->json)
            printf("%s\n", rest_shown(cli, json_string_value(name) ? json_string_value(name) : ""));
    }
    long long background = (long long)json_integer_value(json_object_get(json, "background"));
    if (!values->json && json_is_true(json_object_get(json, "pending")))
        fprintf(stderr,
                "cubby: running commands use the old skills; the new ones replace them when the last has ended\n");
    else if (!values->json && background)
        fprintf(stderr, "cubby: %lld background process%s may still use the old skills\n", background,
                background == 1 ? "" : "es");
    return skill_finish(values, json, NULL);
}

static int skill_upload(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    struct err err = {0};
    if (argc < 1)
        option_fail(cli, "upload: missing DIR or ZIP");
    const struct skill_box box = skill_box_find(cli, values);
    for (int i = 0; i < argc; i++)
        cli_must(skill_upload_one(cli, values, &box, argv[i], &err), &err);
    return 0;
}

/* ---- list ---- */

static int skill_list(struct cli *cli, const struct skill_values *values, int argc, char **) {
    static const struct rest_column columns[] = {COLUMN("SKILL", "id", TEXT), COLUMN("SOURCE", "source", TEXT),
                                                 COLUMN("NAME", "name", TEXT),
                                                 COLUMN("DESCRIPTION", "description", TEXT)};
    json_t *row;
    size_t i;
    const char *member = skill_kinds(values);
    if (argc > 0)
        option_fail(cli, "list takes no arguments");
    const struct skill_box box = skill_box_find(cli, values);
    json_t *json = rest_need(cli, "GET", skill_path(cli, &box, values, NULL), NULL);
    if (!values->json) {
        rest_table(cli, json_object_get(json, member), REST_COLUMNS(columns));
        json_array_foreach(json_object_get(json, "bad"), i, row) {
            const char *text = json_string_value(row);
            fprintf(stderr, "cubby: %s\n", rest_shown(cli, text ? text : ""));
        }
    }
    return skill_finish(values, json, NULL);
}

/* ---- edit ---- */

/* "SKILL/PATH" as a path in the box. */
static const char *skill_edit_path(struct cli *cli, const struct skill_box *box, const char *word) {
    const char *slash = strchr(word, '/');
    if (!slash || slash == word || !slash[1] || word[0] == '.')
        option_fail(cli, "edit takes SKILL/PATH, not '%s'", word);
    for (const char *at = word; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (!at[2] || at[2] == '/'))
            option_fail(cli, "'%s' leads outside the skill", word);
    return arena_printf(&cli->arena, "%s/%s", box->agent ? "/skills" : "skills", word);
}

static int skill_edit(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    struct err err = {0};
    int code;
    bool string = values->old_text;
    if (argc < 1 || argc > 2 || (string && argc > 1))
        option_fail(cli, "edit takes SKILL/PATH and optionally a FILE with the new content");
    if (string != !!values->new_text)
        option_fail(cli, "--old and --new must be given together");
    const struct skill_box box = skill_box_find(cli, values);
    const char *path = skill_edit_path(cli, &box, argv[0]);
    if (string) {
        autobuf body;
        REST_BODY(&body, {"path", path}, {"old", values->old_text}, {"new", values->new_text});
        code = remote_call(cli, "POST", remote_path(cli, box.id, "/edit", NULL), &body, NULL, &err);
    } else if (argc == 1 && isatty(STDIN_FILENO)) {
        code = edit_file(cli, box.id, path, &err);
    } else {
        autobuf text = buf_max(LIMIT_EDIT_BYTES);
        autofd fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
        code = fd < 0 ? err_errno(&err, errno, "%s", argc > 1 ? argv[1] : "standard input")
                      : edit_read(fd, &text, &err) ?: edit_put(cli, box.id, path, NULL, &text, &err);
    }
    return code < 0 ? cli_fail(&err) : 0;
}

/* ---- rm, uninstall, sync ---- */

static int skill_rm(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    int status = 0;
    if (argc < 1)
        option_fail(cli, "missing SKILL");
    const struct skill_box box = skill_box_find(cli, values);
    for (int i = 0; i < argc; i++) {
        const char *path = skill_path(cli, &box, values, remote_encoded(cli, argv[i]));
        path = arena_printf(&cli->arena, "%s%s", path, values->base ? "?base=1" : "");
        status |= rest_each(cli, "DELETE", path, NULL, argv[i]);
    }
    return status;
}

/* The skills that every box gets are placed anew; what came of it. */
static int skill_sync_global(struct cli *cli, const struct skill_values *values, const struct skill_box *box) {
    json_t *json = rest_need(cli, "POST", remote_path(cli, box->id, "/sync", NULL), NULL);
    const char *failed = skill_text_of(json, "error");
    int status = *failed ? EXIT_OURS : 0;
    if (*failed && !values->json)
        fprintf(stderr, "cubby: %s\n", rest_shown(cli, failed));
    const char *line = arena_printf(&cli->arena, "%s: %lld written, %lld removed, %lld kept, %lld unchanged",
                                    rest_shown(cli, skill_text_of(json, "how")),
                                    (long long)json_integer_value(json_object_get(json, "written")),
                                    (long long)json_integer_value(json_object_get(json, "removed")),
                                    (long long)json_integer_value(json_object_get(json, "kept")),
                                    (long long)json_integer_value(json_object_get(json, "unchanged")));
    skill_finish(values, json, line);
    return status;
}

static int skill_sync(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    int status = 0;
    bool global = !argc && !values->from_base && !values->to_base;
    if (!global && (argc < 1 || values->from_base == values->to_base))
        option_fail(cli, "sync needs --from-base or --to-base, and SKILLs");
    const struct skill_box box = skill_box_find(cli, values);
    if (global)
        return skill_sync_global(cli, values, &box);
    autobuf body = buf_max(256);
    buf_printf(&body, "{\"direction\":\"%s\"}", values->to_base ? "to_base" : "from_base");
    for (int i = 0; i < argc; i++) {
        const char *rest = arena_printf(&cli->arena, "/skills/%s/sync", remote_encoded(cli, argv[i]));
        status |= rest_each(cli, "POST", remote_path(cli, box.id, rest, NULL), &body, argv[i]);
    }
    return status;
}

/* ---- what users share ---- */

static const char *skill_entry_line(struct cli *cli, const json_t *entry) {
    return arena_printf(&cli->arena, "%s/%s@%s", skill_text_of(entry, "author"), skill_text_of(entry, "name"),
                        skill_text_of(entry, "version"));
}

static int skill_publish(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    autobuf body;
    if (argc != 1)
        option_fail(cli, "publish takes one NAME");
    const struct skill_box box = skill_box_find(cli, values);
    REST_BODY(&body, {"box", box.id}, {"name", argv[0]}, {"type", values->type}, {"version", values->version},
              {"description", values->description}, {"tags", values->tags},
              {"sharing", values->private_entry ? "private" : NULL});
    json_t *json = rest_need(cli, "POST", "/v1/registry", &body);
    return skill_finish(values, json, rest_shown(cli, skill_entry_line(cli, json)));
}

static int skill_unpublish(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    int status = 0;
    if (argc < 1)
        option_fail(cli, "missing ENTRY (see `cubby skill search --mine`)");
    for (int i = 0; i < argc; i++) {
        const char *slash = strchr(argv[i], '/'); /* the author is a parameter: a path holds no slash of a name */
        const char *author = slash ? arena_copy(&cli->arena, argv[i], (size_t)(slash - argv[i])) : NULL;
        autobuf path = buf_max(64 << 10);
        buf_printf(&path, "/v1/registry/%s", remote_encoded(cli, slash ? slash + 1 : argv[i]));
        rest_parameter(cli, &path, "author", author);
        rest_parameter(cli, &path, "type", values->type);
        status |= rest_each(cli, "DELETE", buf_cstr(&path), NULL, argv[i]);
    }
    return status;
}

static int skill_install(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    if (argc < 1)
        option_fail(cli, "missing ENTRY (see `cubby skill search`)");
    const struct skill_box box = skill_box_find(cli, values);
    for (int i = 0; i < argc; i++) {
        autobuf body = buf_max(LIMIT_JSON_BYTES);
        struct json out = json_begin(&body);
        json_put_str(&out, "entry", argv[i]);
        json_put_bool(&out, "replace", values->replace);
        json_close(&out, '}');
        rest_post(cli, skill_path(cli, &box, values, NULL), &body, "path", values->json);
    }
    return 0;
}

static const char *skill_search_digest(struct cli *cli, const json_t *row) {
    return arena_printf(&cli->arena, "%.12s", skill_text_of(row, "sha256"));
}

static int skill_search(struct cli *cli, const struct skill_values *values, int argc, char **argv) {
    static const struct rest_column columns[] = {
        COLUMN("ID", "id", NUMBER),          COLUMN("TYPE", "type", TEXT),
        CELL("ENTRY", skill_entry_line),     COLUMN("SHARING", "sharing", TEXT),
        COLUMN("FILES", "files", NUMBER),    COLUMN("SIZE", "bytes", SIZE),
        CELL("SHA256", skill_search_digest), COLUMN("DESCRIPTION", "description", TEXT),
    };
    if (argc > 1)
        option_fail(cli, "search takes one text; quote it if it has spaces");
    autobuf path = buf_max(64 << 10);
    buf_printf(&path, "/v1/registry?limit=%" PRIu64, values->limit);
    rest_parameter(cli, &path, "mine", values->mine ? "1" : NULL);
    rest_parameter(cli, &path, "versions", values->versions ? "1" : NULL);
    rest_parameter(cli, &path, "type", values->type);
    rest_parameter(cli, &path, "q", argc ? argv[0] : NULL);
    return rest_list(cli, buf_cstr(&path), "entries", REST_COLUMNS(columns), values->json);
}

/* ---- the table ---- */

int command_skill(struct cli *cli, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(struct cli *cli, const struct skill_values *values, int argc, char **argv);
    } actions[] = {
        {"upload", skill_upload}, {"list", skill_list},           {"edit", skill_edit},       {"rm", skill_rm},
        {"sync", skill_sync},     {"publish", skill_publish},     {"install", skill_install}, {"uninstall", skill_rm},
        {"search", skill_search}, {"unpublish", skill_unpublish},
    };
    struct skill_values values = {.limit = 100};
    argc = option_parse(cli, argc, argv, &values);
    if (values.user && !values.agent)
        option_fail(cli, "--user needs --agent");
    for (size_t i = 0; argc > 0 && i < sizeof actions / sizeof *actions; i++)
        if (command_verb(argv[0], actions[i].name))
            return actions[i].run(cli, &values, argc - 1, argv + 1);
    option_fail(cli,
                "missing or unknown subcommand: upload, list, edit, rm, sync, publish, unpublish, install, uninstall "
                "or search");
}
