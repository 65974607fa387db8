/* `cubby audit`: shows who did what to which box, from the daemon's audit log. Invariant: texts of boxes and clients
 * are shown escaped. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"
#include "cli/terminal.h"

#define FOLLOW_WAIT_MS 30000
#define SHOWN_ROWS 50

struct audit_values {
    const char *box, *user, *verb, *outcome, *since, *until;
    uint64_t lines;
    bool follow, json, verify;
};

const struct row audit_options[] = {
    OPTION("box", 'b', TEXT, struct audit_values, box, "ID", "only rows about this box, which may be gone"),
    OPTION("user", 'u', TEXT, struct audit_values, user, "NAME", "only rows about this user's boxes"),
    OPTION("verb", 0, TEXT, struct audit_values, verb, "NAME", "only rows with this verb, e.g. exec or box_died"),
    OPTION("outcome", 0, TEXT, struct audit_values, outcome, "CODE",
           "only rows that ended so: ok, failed, or an error code such as NOT_FOUND"),
    OPTION("since", 0, TEXT, struct audit_values, since, "TIME",
           "all rows from then on: 2026-01-31T12:00:00Z, 2026-01-31, or 90s, 10m, 2h, 3d ago"),
    OPTION("until", 0, TEXT, struct audit_values, until, "TIME", "only rows before that"),
    OPTION("lines", 'n', INT, struct audit_values, lines, "N", "show the newest N rows (default: 50)"),
    OPTION("follow", 'f', BOOL, struct audit_values, follow, NULL, "continue with new rows"),
    OPTION("json", 0, BOOL, struct audit_values, json, NULL, "print a JSON object for each row"),
    OPTION("verify", 0, BOOL, struct audit_values, verify, NULL, "check that no row was changed or removed"),
    {.name = NULL},
};

/* ---- the chain ---- */

static int audit_verify(struct cli *cli, bool json) {
    json_auto_t *answer = rest_need(cli, "GET", "/v1/audit/verify", NULL);
    bool intact = json_is_true(json_object_get(answer, "intact"));
    const char *hash = rest_text(answer, "hash");
    const json_t *broken = json_object_get(answer, "broken_at");
    long long rows = json_integer_value(json_object_get(answer, "rows"));
    long long last = json_integer_value(json_object_get(answer, "last"));
    if (json) {
        remote_print(answer);
    } else if (intact) {
        printf("intact: %lld rows, the last is %lld with hash %s\n", rows, last, hash ? hash : "?");
    } else if (json_is_integer(broken)) {
        printf("NOT INTACT: row %lld does not follow from the one before it\n", (long long)json_integer_value(broken));
    } else {
        const char *damage = rest_text(answer, "damage");
        printf("NOT INTACT: %s\n", rest_shown(cli, damage ? damage : "?"));
    }
    return intact ? 0 : 1;
}

/* ---- the query ---- */

/* ---- rows ---- */

/* "ok", "exit 3", "SIGKILL", "timeout", "NOT_FOUND" */
static const char *audit_outcome(struct arena *arena, const json_t *row) {
    const json_t *exit_code = json_object_get(row, "exit_code");
    const char *signal = rest_text(row, "signal");
    if (json_is_true(json_object_get(row, "timed_out")))
        return "time-out";
    if (json_is_true(json_object_get(row, "oom_killed")))
        return "out of memory";
    if (json_is_integer(exit_code) && json_integer_value(exit_code))
        return arena_printf(arena, "exit %lld", (long long)json_integer_value(exit_code));
    return signal ? signal : rest_text(row, "outcome");
}

/* Returns the sender: a user's token, or the scope of one without a user; "-" if there is none. */
static const char *audit_by(struct arena *arena, const json_t *row) {
    const char *actor = rest_text(row, "actor"), *scope = rest_text(row, "scope"), *token = rest_text(row, "token");
    if (actor || !scope)
        return actor;
    return token ? arena_printf(arena, "%s %.6s", scope, token) : scope;
}

static const char *audit_took(struct arena *arena, const json_t *row) {
    double ms = json_number_value(json_object_get(row, "duration_ms"));
    if (!json_is_integer(json_object_get(row, "status")))
        return NULL;
    return arena_printf(arena, ms < 10 ? "%.1f ms" : ms < 10000 ? "%.0f ms" : "%.0f s", ms < 10000 ? ms : ms / 1000);
}

static const char *audit_detail(struct arena *arena, const json_t *row) {
    autobuf bytes = buf_max(16 << 10);
    if (!remote_bytes(row, "detail", &bytes))
        return NULL;
    autobuf shown = buf_max(64 << 10);
    text_shown(&shown, (const char *)bytes.data, bytes.len); /* escaped here, because a NUL would end the cell */
    return arena_copy(arena, shown.data, shown.len);
}

static const struct audit_column {
    const char *head;
    size_t width; /* 0: the last column, of any width */
} audit_table[] = {{"WHEN (UTC)", 19}, {"USER", 10},    {"BY", 8},   {"VERB", 16},
                   {"BOX", 16},        {"OUTCOME", 12}, {"TOOK", 7}, {"DETAIL", 0}};
#define AUDIT_COLUMNS (sizeof audit_table / sizeof *audit_table)

/* Prints one line. Columns are as wide as their rows usually are, so that later lines align. On a terminal the line is
 * cut at its width. */
static void audit_line(const char *const cells[AUDIT_COLUMNS], bool detail_shown) {
    unsigned columns = 0, rows;
    autobuf line = buf_max(256 << 10);
    for (size_t i = 0; i < AUDIT_COLUMNS; i++) {
        table_pad(&line, cells[i], audit_table[i].width, detail_shown && i + 1 == AUDIT_COLUMNS);
        if (audit_table[i].width)
            buf_puts(&line, "  ");
    }
    size_t len = line.len, shown = 0;
    if (isatty(STDOUT_FILENO))
        terminal_size(STDOUT_FILENO, &columns, &rows);
    for (size_t at = 0; columns && at < len; at++)
        if ((line.data[at] & 0xc0) != 0x80 && ++shown > columns)
            len = at;
    fwrite(line.data, 1, len, stdout);
    putchar('\n');
}

static void audit_rows(const json_t *events, bool json) {
    size_t i;
    json_t *row;
    json_array_foreach(events, i, row) {
        autoarena arena = ARENA_EMPTY; /* per row: --follow may run for days */
        const char *const cells[AUDIT_COLUMNS] = {rest_time(&arena, rest_text(row, "at")),
                                                  rest_text(row, "user"),
                                                  audit_by(&arena, row),
                                                  rest_text(row, "verb"),
                                                  rest_text(row, "box"),
                                                  audit_outcome(&arena, row),
                                                  audit_took(&arena, row),
                                                  audit_detail(&arena, row)};
        if (json)
            remote_print(row);
        else
            audit_line(cells, true);
    }
}

/* ---- pages ---- */

static int audit_show(struct cli *cli, const struct audit_values *values) {
    uint64_t lines = values->since ? LIMIT_AUDIT_ROWS : values->lines ? values->lines : SHOWN_ROWS;
    autobuf path = buf_max(32 << 10);
    autobuf rest = buf_max(16 << 10); /* made once, so that "10m ago" stays fixed */
    buf_puts(&rest, "?");
    rest_parameter(cli, &rest, "box", values->box ? remote_box(cli, values->box) : NULL);
    rest_parameter(cli, &rest, "user", values->user);
    rest_parameter(cli, &rest, "verb", values->verb);
    rest_parameter(cli, &rest, "outcome", values->outcome);
    rest_parameter(cli, &rest, "since", rest_when(cli, "since", values->since));
    rest_parameter(cli, &rest, "until", rest_when(cli, "until", values->until));
    buf_printf(&path, "/v1/audit?limit=%llu%s", (unsigned long long)lines, values->since ? "" : "&tail=1");
    if (!values->json) {
        const char *heads[AUDIT_COLUMNS];
        for (size_t i = 0; i < AUDIT_COLUMNS; i++)
            heads[i] = audit_table[i].head;
        audit_line(heads, false);
    }
    for (;;) {
        buf_put(&path, rest.data + 1, rest.len - 1);
        json_auto_t *answer = rest_need(cli, "GET", buf_cstr(&path), NULL);
        audit_rows(json_object_get(answer, "events"), values->json);
        bool more = json_is_true(json_object_get(answer, "truncated"));
        long long next = json_integer_value(json_object_get(answer, "next"));
        if (fflush(stdout) != 0) /* the reader is gone */
            return EXIT_OURS;
        if (!more && !values->follow)
            return 0;
        buf_clear(&path);
        buf_printf(&path, "/v1/audit?after=%lld&limit=%u&wait_ms=%d", next, LIMIT_AUDIT_ROWS,
                   more ? 0 : FOLLOW_WAIT_MS);
    }
}

int command_audit(struct cli *cli, int argc, char **argv) {
    struct audit_values values = {0};
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    if (values.lines > LIMIT_AUDIT_ROWS)
        option_fail(cli, "--lines is at most %u; --since shows all from a time on", LIMIT_AUDIT_ROWS);
    if (values.lines && values.since)
        option_fail(cli, "--lines and --since cannot be combined: --lines counts from the newest row");
    if (values.follow && values.until)
        option_fail(cli, "--follow and --until cannot be combined");
    return values.verify ? audit_verify(cli, values.json) : audit_show(cli, &values);
}
