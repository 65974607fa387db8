/* Users by name. Called wherever a request or a template names one. Invariant: what a box has written into its passwd is
 * bounded and checked; a line that is not a user's counts for nothing. */
#include "front/e2b/account.h"

#include "base/path.h"
#include "base/text.h"

enum { ACCOUNT_PASSWD_BYTES = 256 << 10, ACCOUNT_NAME_BYTES = 64, ACCOUNT_ID_MOST = 65533 };

#define ACCOUNT_HOME(home, name)                                                                                       \
    { "HOME=" home, "USER=" name, "LOGNAME=" name }
const struct e2b_account e2b_account_user = {E2B_HOME, E2B_USER_ID, E2B_USER_ID, ACCOUNT_HOME(E2B_HOME, "user")};
const struct e2b_account e2b_account_root = {"/root", 0, 0, ACCOUNT_HOME("/root", "root")};

/* "NAME:PASSWORD:UID:GID:COMMENT:HOME:SHELL" */
static bool account_line(char *line, const char *name, struct arena *arena, struct e2b_account *account) {
    char *fields[7];
    uint64_t uid, gid;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!(fields[i] = strsep(&line, ":")))
            return false;
    if (strcmp(fields[0], name) != 0 || !text_u64(fields[2], ACCOUNT_ID_MOST, &uid) ||
        !text_u64(fields[3], ACCOUNT_ID_MOST, &gid))
        return false;
    const char *home = path_normal(fields[5]) ? fields[5] : "/";
    *account = (struct e2b_account){.home = arena_strdup(arena, home),
                                    .uid = (uint32_t)uid,
                                    .gid = (uint32_t)gid,
                                    .env = {arena_printf(arena, "HOME=%s", home), arena_printf(arena, "USER=%s", name),
                                            arena_printf(arena, "LOGNAME=%s", name)}};
    return true;
}

int e2b_account(struct box *box, const char *name, struct arena *arena, struct e2b_account *ret_account,
                struct err *err) {
    autobuf passwd = buf_max(ACCOUNT_PASSWD_BYTES);
    if (!name || !*name)
        name = e2b_default(box, E2B_USER);
    *ret_account = name && !strcmp(name, "root") ? e2b_account_root : e2b_account_user;
    if (!name || !strcmp(name, "root") || !strcmp(name, "user"))
        return 0;
    if (strlen(name) <= ACCOUNT_NAME_BYTES && !strpbrk(name, ":\n") &&
        box_read_all(box, "/etc/passwd", ACCOUNT_PASSWD_BYTES - 1, -1, &passwd, ERR_IGNORED) == 0) {
        char *rest = (char *)(uintptr_t)buf_cstr(&passwd), *line;
        while (rest && (line = strsep(&rest, "\n")))
            if (account_line(line, name, arena, ret_account))
                return 0;
    }
    return err_set(err, ERR_UNAUTHORIZED, "invalid username: '%.100s'", name);
}

void e2b_account_exec(const struct e2b_account *account, struct exec_request *exec) {
    exec->root = account->uid == 0;
    exec->uid = account->uid == E2B_USER_ID ? 0 : account->uid;
    exec->gid = account->gid;
}
