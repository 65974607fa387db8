/* The ways to name a box on a command line: its ID, the first digits of it, `@THREAD`, `@USER/THREAD`, and `-` for the
 * last one that was used on a terminal. Called wherever a box is named. Invariant: a name that fits several boxes is
 * refused, and no request is made for a whole ID. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/context.h"
#include "cli/rest/list.h"

enum { BOXNAME_LEAST = 4, BOXNAME_SHOWN = 8 };

bool remote_named(const char *word) {
    size_t digits = strspn(word, "0123456789abcdef"), len = strlen(word);
    return (digits == len && len >= BOXNAME_LEAST && len <= 16) || (word[0] == '@' && word[1]) || !strcmp(word, "-");
}

/* ---- the last one ---- */

static const char *boxname_last_path(struct cli *cli) {
    return context_path(&cli->arena, "XDG_STATE_HOME", ".local/state", "last");
}

void remote_used(struct cli *cli, const char *id) {
    const char *path = isatty(STDERR_FILENO) ? boxname_last_path(cli) : NULL; /* scripts do not change it */
    const char *line = arena_printf(&cli->arena, "%s %s\n", id, remote_url());
    char old[4096];
    if (path && !(fd_read_file(AT_FDCWD, path, old, sizeof old - 1) > 0 && strcmp(old, line) == 0))
        context_write(path, line, strlen(line), ERR_IGNORED); /* without it, there is just no last box */
}

static const char *boxname_last(struct cli *cli, struct err *err) {
    const char *path = boxname_last_path(cli);
    char *line = arena_alloc(&cli->arena, 4096), *url, *save;
    ssize_t len = path ? fd_read_file(AT_FDCWD, path, line, 4095) : -1;
    const char *id = len > 0 ? strtok_r(line, " \n", &save) : NULL;
    if (id && text_id(id) && (url = strtok_r(NULL, " \n", &save)) && strcmp(url, remote_url()) == 0)
        return id;
    err_set(err, ERR_NOT_FOUND, "no box of %s was used on this terminal's account yet; name one (see `cubby ps`)",
            remote_url());
    return NULL;
}

/* ---- those that the daemon has ---- */

static bool boxname_fits(const json_t *box, const char *word, bool with_user) {
    const char *id = rest_text(box, "id"), *thread = rest_text(box, "thread"), *user = rest_text(box, "user");
    if (word[0] != '@')
        return id && strncmp(id, word, strlen(word)) == 0;
    size_t len = user ? strlen(user) : 0;
    if (!with_user)
        return thread && strcmp(thread, word + 1) == 0;
    return thread && user && strncmp(user, word + 1, len) == 0 && word[1 + len] == '/' &&
           strcmp(thread, word + len + 2) == 0;
}

/* Returns the only box that fits, or NULL with the reason. */
static const char *boxname_match(struct cli *cli, const json_t *boxes, const char *word, bool with_user,
                                 struct err *err) {
    autobuf found = buf_max(1024);
    const char *only = NULL;
    size_t i, count = 0;
    json_t *box;
    json_array_foreach(boxes, i, box) {
        const char *id = rest_text(box, "id"), *user = rest_text(box, "user");
        if (!id || !text_id(id) || !boxname_fits(box, word, with_user))
            continue;
        only = arena_strdup(&cli->arena, id);
        if (strcmp(id, word) == 0)
            return only;
        if (count++ < BOXNAME_SHOWN)
            buf_printf(&found, "%s%s", count > 1 ? ", " : "",
                       word[0] == '@' ? arena_printf(&cli->arena, "@%s/%s", user ? user : "", word + 1) : id);
    }
    if (count == 1)
        return only;
    if (count)
        err_set(err, ERR_INVALID, "'%s' fits %zu boxes: %s%s", word, count, buf_cstr(&found),
                count > BOXNAME_SHOWN ? ", …" : "");
    else
        err_set(err, ERR_NOT_FOUND,
                word[0] == '@' ? "no box has the thread '%s' (see `cubby ps`)"
                               : "no box ID begins with '%s' (see `cubby ps`)",
                word + (word[0] == '@'));
    return NULL;
}

static const char *boxname_find(struct cli *cli, const char *word, struct err *err) {
    if (strcmp(word, "-") == 0)
        return boxname_last(cli, err);
    json_auto_t *answer = NULL;
    if (remote_json(cli, "GET", "/v1/boxes", NULL, &answer, err) < 0)
        return NULL;
    const json_t *boxes = json_object_get(answer, "boxes");
    const char *id = boxname_match(cli, boxes, word, false, err);
    if (!id && err->code == ERR_NOT_FOUND && word[0] == '@' && strchr(word, '/'))
        id = boxname_match(cli, boxes, word, true, err);
    return id;
}

const char *remote_box(struct cli *cli, const char *word) {
    struct err err = {0};
    for (const struct box_name *name = cli->names; name; name = name->next)
        if (strcmp(name->word, word) == 0)
            return name->id;
    if (!remote_named(word))
        option_fail(cli, "'%s' is not a box ID (16 hex digits, or its first 4; @THREAD; see `cubby ps`)", word);
    const char *id = strlen(word) == 16 && word[0] != '@' ? word : boxname_find(cli, word, &err);
    /* Clients may choose IDs of 8 digits; one that the daemon does not list is its to refuse. */
    if (!id && err.code == ERR_NOT_FOUND && text_id(word))
        id = word;
    cli_must(id ? 0 : -err.code, &err);
    struct box_name *name = arena_alloc(&cli->arena, sizeof *name);
    *name = (struct box_name){arena_strdup(&cli->arena, word), id, cli->names};
    cli->names = name;
    remote_used(cli, id);
    return id;
}
