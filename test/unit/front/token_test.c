/* Tokens: their rules, the file, two processes on it, and the table that finds one among ten thousand. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "front/auth_table.h"
#include "tap.h"

static char directory[] = "/tmp/cubby-token.XXXXXX";

static void sql(const char *text) {
    char path[64];
    sqlite3 *handle;
    snprintf(path, sizeof path, "%s/tokens.db", directory);
    must(!sqlite3_open(path, &handle) && !sqlite3_exec(handle, text, NULL, NULL, NULL), sqlite3_errmsg(handle));
    sqlite3_close(handle);
}

static void remove_file(void) {
    char path[64];
    snprintf(path, sizeof path, "%s/tokens.db", directory);
    unlink(path);
}

/* ---- rules ---- */

static void test_wishes(void) {
    static const struct {
        const char *user, *scope, *runner, *label;
        int result;
        const char *got; /* scope/user */
    } rows[] = {
        {NULL, NULL, NULL, NULL, 0, "user/default"},       {"ann", NULL, NULL, NULL, 0, "user/ann"},
        {NULL, "admin", NULL, NULL, 0, "admin/-"},         {"ann", "admin", NULL, NULL, -ERR_INVALID, NULL},
        {NULL, "read", NULL, NULL, 0, "read/-"},           {"ann", "read", NULL, "a label", 0, "read/ann"},
        {NULL, NULL, "machine", NULL, 0, "runner/-"},      {"ann", NULL, "machine", NULL, 0, "runner/ann"},
        {NULL, "runner", NULL, NULL, -ERR_INVALID, NULL},  {NULL, "user", "machine", NULL, -ERR_INVALID, NULL},
        {NULL, NULL, ".hidden", NULL, -ERR_INVALID, NULL}, {NULL, NULL, "", NULL, -ERR_INVALID, NULL},
        {"a:b", NULL, NULL, NULL, -ERR_INVALID, NULL},     {NULL, NULL, NULL, "\xff", -ERR_INVALID, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct token wish = {.user = rows[i].user, .runner = rows[i].runner, .label = rows[i].label};
        struct err err = {0};
        char got[80], what[120];
        if (rows[i].scope && !scope_find(rows[i].scope, &wish.scope))
            abort();
        int result = token_wish(&wish, rows[i].scope, &err);
        snprintf(got, sizeof got, "%s/%s", scope_name(wish.scope), wish.user ? wish.user : "-");
        snprintf(what, sizeof what, "wish %zu: %s", i, rows[i].got ? rows[i].got : "refused");
        ok(result == rows[i].result && (result || !strcmp(got, rows[i].got)), what);
    }
}

/* ---- the file ---- */

static size_t listed(struct token_store *store, struct arena *arena, struct token **ret_tokens) {
    struct err err;
    size_t many = 0;
    return token_list(store, arena, ret_tokens, &many, &err) < 0 ? (size_t)-1 : many;
}

static bool changed(struct token_store *store) {
    struct err err = {0};
    bool yes = false;
    if (token_changed(store, &yes, &err) < 0)
        printf("# %s\n", err.text);
    return yes;
}

static void test_store(void) {
    autoarena arena = ARENA_EMPTY;
    struct err err = {0};
    struct token_store *one = NULL, *two = NULL;
    struct token token = {.user = "ann", .scope = SCOPE_USER, .label = "x"}, *tokens;
    char text[TOKEN_TEXT_BYTES], path[64];
    struct stat status;
    ok(token_store_open(directory, &one, &err) == 0, "a store is made");
    ok(token_store_open(directory, &two, &err) == 0, "and opened by another");
    snprintf(path, sizeof path, "%s/tokens.db", directory);
    ok(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600, "its file is the owner's alone");
    ok(listed(one, &arena, &tokens) == 0 && listed(two, &arena, &tokens) == 0, "it is empty");
    ok(!changed(one) && !changed(two), "and nothing has changed");
    ok(token_create(one, &token, text, &err) == 0, "one is made");
    uint8_t digest[32];
    char id[TOKEN_ID_BYTES];
    token_hash(text, digest);
    token_id(digest, id);
    ok_all("a secret, named by its digest", strlen(text) == 70, !strncmp(text, "cubby_", 6), !strcmp(id, token.id));
    ok(changed(two) && changed(two), "the other sees it until it looks");
    ok_all("as it was made", listed(two, &arena, &tokens) == 1, !strcmp(tokens[0].user, "ann"),
           !strcmp(tokens[0].label, "x"), !memcmp(tokens[0].sha256, digest, 32),
           tokens[0].created_ms == token.created_ms);
    ok(!changed(two), "then no more");
    const struct token_use use = {.id = id, .used_ms = 5000};
    ok(token_used(one, &use, 1, &err) == 0 && !changed(two), "that it was used is no change");
    ok(listed(two, &arena, &tokens) == 1 && tokens[0].used_ms == 5000, "but known");
    ok(token_revoke(two, id, &err) == 0 && token_revoke(two, id, &err) == 0, "it is revoked, and again");
    ok(token_revoke(two, "000000000000", &err) == -ERR_NOT_FOUND, "another is not there");
    ok_all("the first one sees that", changed(one), listed(one, &arena, &tokens) == 1, tokens[0].revoked_ms);
    sql("UPDATE token SET revoked_ms = 1000");
    token = (struct token){.scope = SCOPE_ADMIN};
    ok_all("those revoked long ago are forgotten", token_create(one, &token, text, &err) == 0,
           listed(one, &arena, &tokens) == 1, !strcmp(tokens[0].id, token.id));
    sql("INSERT INTO token (id, sha256, scope, created_ms, expires_ms, used_ms, revoked_ms) VALUES"
        " ('aaaaaaaaaaaa', zeroblob(32), 'root', 1, 0, 0, 0), ('bbbbbbbbbbbb', randomblob(32), 'user', 1, 0, 0, 0),"
        " ('short', randomblob(32), 'admin', 1, 0, 0, 0)");
    ok(listed(one, &arena, &tokens) == 1, "a row that is not ours opens nothing");
    remove_file();
    ok(changed(one) && listed(one, &arena, &tokens) == 0, "a file that was taken away is a new one");
    ok(changed(two) && listed(two, &arena, &tokens) == 0, "for everybody");
    remove_file();
    int foreign = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    (void)!write(foreign, "this is no data base, and long enough to be read as one................................",
                 86);
    close(foreign);
    bool ignored;
    ok(token_changed(one, &ignored, &err) < 0 && token_create(one, &token, text, &err) < 0, "what is none is refused");
    remove_file();
    token_store_close(one);
    token_store_close(two);
}

/* ---- the table ---- */

static struct grant *granted(struct auth *auth, const char *text) {
    uint8_t digest[32];
    auth_hash(text, digest);
    return auth_lookup(auth, digest);
}

static void test_replace(void) {
    struct err err = {0};
    uint8_t a[32], b[32], c[32];
    struct auth *auth = auth_new(AUTH_REQUIRED);
    auth_hash("token-a", a), auth_hash("token-b", b), auth_hash("token-c", c);
    auth_add(auth, a, "ann", SCOPE_USER);
    auth_add(auth, b, "bob", SCOPE_USER);
    auth_add_peer(auth, "1234=ann", &err);
    ok(auth_open_store(auth, directory, &err) == 0 && auth_count(auth) == 2, "configured ones beside the store");
    struct grant *ann = granted(auth, "token-a"), *bob = granted(auth, "token-b");
    struct grant *peer = auth->peers.items[0];
    ok_all("a user has one share, however he comes", ann, bob, ann->who.tenant != bob->who.tenant,
           peer->who.tenant == ann->who.tenant);
    atomic_fetch_add(&ann->refs, 1), atomic_fetch_add(&bob->refs, 1), atomic_fetch_add(&peer->refs, 1);
    struct auth *fresh = auth_new(AUTH_REQUIRED);
    auth_add(fresh, a, "ann", SCOPE_USER);
    auth_add(fresh, b, "bob", SCOPE_READ);
    auth_add(fresh, c, "cy", SCOPE_USER);
    auth_replace(auth, fresh);
    ok(granted(auth, "token-a") == ann && !atomic_load(&ann->ended), "what is as it was goes on");
    ok(granted(auth, "token-b") != bob && atomic_load(&bob->ended), "what is another ends");
    ok(granted(auth, "token-b")->who.scope == SCOPE_READ && granted(auth, "token-c"), "and is as it is now");
    ok(atomic_load(&peer->ended) && !strcmp(peer->who.user, "ann"), "a uid that is gone ends, and is still itself");
    auth_release(&ann->who), auth_release(&bob->who), auth_release(&peer->who);
    auth_free(auth);
    remove_file();
}

static uint64_t lookup_ns(struct auth *auth, const char *text) {
    uint8_t digest[32];
    auth_hash(text, digest);
    uint64_t best_us = UINT64_MAX;
    for (int turn = 0; turn < 10; turn++) {
        uint64_t start_us = clock_us();
        for (int i = 0; i < 100000; i++)
            if (!auth_lookup(auth, digest))
                abort();
        uint64_t us = clock_us() - start_us;
        best_us = us < best_us ? us : best_us;
    }
    return best_us / 100;
}

static void test_many(void) {
    struct err err = {0};
    struct auth *auth = auth_new(AUTH_REQUIRED);
    struct token token = {.scope = SCOPE_USER, .user = "me"};
    char text[TOKEN_TEXT_BYTES], what[100];
    ok(auth_open_store(auth, directory, &err) == 0 && auth_create(auth, &token, text, &err) == 0, "a store with one");
    uint64_t few_ns = lookup_ns(auth, text);
    sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
        " INSERT INTO token (id, sha256, user, scope, created_ms, expires_ms, used_ms, revoked_ms)"
        " SELECT printf('%012x', i), randomblob(32), 'user' || i, 'user', 1, 0, 0, 0 FROM n");
    uint64_t start_ms = clock_ms();
    ok(auth_watch(auth, NULL, &err) == 0, "watched");
    while (auth_count(auth) < 10001 && clock_ms() < start_ms + 60000)
        usleep(1000);
    ok(auth_count(auth) == 10001, "ten thousand more are noticed");
    uint64_t many_ns = lookup_ns(auth, text);
    snprintf(what, sizeof what, "one of them is found as fast as the only one (%llu ns, %llu ns)",
             (unsigned long long)many_ns, (unsigned long long)few_ns);
    ok(many_ns < 10 * few_ns + 10000, what);
    start_ms = clock_ms();
    ok(auth_revoke(auth, token.id, NULL, &err) == 0 && !granted(auth, text), "one is revoked");
    ok(clock_ms() - start_ms < 30000, "in reasonable time");
    auth_unwatch(auth);
    auth_free(auth);
    remove_file();
}

int main(void) {
    if (!mkdtemp(directory))
        abort();
    test_wishes();
    test_store();
    test_replace();
    test_many();
    rmdir(directory);
    return tap_end();
}
