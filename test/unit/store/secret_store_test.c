/* secret_store: values are sealed, bound to their row, and lost with the key. */
#include "store/secret_store.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "base/base.h"
#include "tap.h"

static char directory[] = "/tmp/cubby-secret-XXXXXX";

static struct secret_store *store_of(const char *key_file) {
    struct secret_store *store = NULL;
    struct err err = {0};
    must(secret_store_open(directory, key_file, &store, &err) == 0, "it works");
    return store;
}

static char *value_of(struct secret_store *store, const char *user, const char *name) {
    static char text[256];
    autobuf out = buf_max(4096);
    struct err err = {0};
    int r = secret_store_value(store, user, name, &out, &err);
    snprintf(text, sizeof text, "%s", r < 0 ? err.text : buf_cstr(&out));
    return text;
}

static void change(const char *sql) {
    sqlite3 *db = NULL;
    must(sqlite3_open(text_make(200, "%s/secrets.db", directory), &db) == SQLITE_OK, "it works");
    must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "it works");
    sqlite3_close(db);
}

static bool file_has(const char *name, const char *text) {
    char data[65536];
    ssize_t n = fd_read_file(AT_FDCWD, text_make(200, "%s/%s", directory, name), data, sizeof data);
    return n > 0 && memmem(data, (size_t)n, text, strlen(text));
}

static void test_values(void) {
    struct secret_store *store = store_of(NULL);
    autoarena arena = ARENA_EMPTY;
    struct secret_row row, *rows;
    struct err err = {0};
    size_t count;
    must(secret_store_put(store, "ann", "a", SECRET_NEW, "{\"x\":1}", "first value", 11, &err) == 0, "it works");
    must(secret_store_put(store, NULL, "a", SECRET_NEW, NULL, "everybody's", 11, &err) == 0, "it works");
    is(value_of(store, "ann", "a"), "first value", "a value comes back");
    is(value_of(store, NULL, "a"), "everybody's", "the same name without a user is another secret");
    is(value_of(store, "bob", "a"), "no secret 'a'", "another user has none");
    ok(secret_store_put(store, "ann", "a", SECRET_NEW, NULL, "again", 5, &err) == -ERR_EXISTS, "a taken name");
    ok(secret_store_put(store, "ann", "b", SECRET_OLD, NULL, "again", 5, &err) == -ERR_NOT_FOUND, "a missing one");
    must(secret_store_get(store, "ann", "a", &arena, &row, &err) == 0, "it works");
    char digest[9];
    memcpy(digest, row.digest, sizeof digest);
    ok_all("its row", row.version == 1, strcmp(row.meta, "{\"x\":1}") == 0, strlen(row.id) == 16, row.created_us > 0);
    must(secret_store_put(store, "ann", row.id, SECRET_OLD, NULL, "second value", 12, &err) == 0, "it works");
    is(value_of(store, "ann", row.id), "second value", "changed by its id");
    must(secret_store_get(store, "ann", "a", &arena, &row, &err) == 0, "it works");
    ok_all("a new version, what it is for stays", row.version == 2, strcmp(row.meta, "{\"x\":1}") == 0,
           strcmp(row.digest, digest) != 0);
    must(secret_store_put(store, "ann", "a", SECRET_OLD, "{}", NULL, 0, &err) == 0, "it works");
    is(value_of(store, "ann", "a"), "second value", "another definition leaves the value");
    must(secret_store_list(store, true, NULL, &arena, &rows, &count, &err) == 0, "it works");
    ok(count == 2, "all are listed");
    must(secret_store_list(store, false, "ann", &arena, &rows, &count, &err) == 0, "it works");
    ok(count == 1, "or one user's");
    ok(!file_has("secrets.db", "second value") && !file_has("secrets.db", "first value"), "no value is in the file");
    secret_store_close(store);
}

static void test_rows(void) {
    struct secret_store *store = store_of(NULL);
    struct err err = {0};
    must(secret_store_put(store, "ann", "c", SECRET_NEW, NULL, "third value", 11, &err) == 0, "it works");
    secret_store_close(store);
    change("UPDATE secret SET sealed=(SELECT sealed FROM secret WHERE name='c') WHERE user='ann' AND name='a'");
    store = store_of(NULL);
    ok(strstr(value_of(store, "ann", "a"), "another key"), "a value moved to another row is refused");
    secret_store_close(store);
    change("UPDATE secret SET version=version+1 WHERE name='c'");
    store = store_of(NULL);
    ok(strstr(value_of(store, "ann", "c"), "another key"), "and so is one with another version");
    must(secret_store_put(store, "ann", "c", SECRET_OLD, NULL, "fourth value", 12, &err) == 0, "it works");
    is(value_of(store, "ann", "c"), "fourth value", "a value that is set again is good");
    secret_store_close(store);
}

static void test_keys(void) {
    const char *key = text_make(200, "%s/key", directory);
    struct secret_store *store = NULL;
    struct err err = {0};
    FILE *file = fopen(key, "w");
    fputs("0123456789abcdef0123456789abcdef\n", file);
    fclose(file);
    chmod(key, 0644);
    ok(secret_store_open(directory, key, &store, &err) == -ERR_DENIED, "a key that others may read is refused");
    chmod(key, 0600);
    store = store_of(key);
    is(secret_store_key(store), "secret_key_file", "another key");
    ok(strstr(value_of(store, "ann", "c"), "another key"), "opens nothing that was sealed with the first");
    secret_store_close(store);
    must(truncate(key, 8) == 0, "it works");
    ok(secret_store_open(directory, key, &store, &err) == -ERR_INVALID, "a short key is refused");
    setenv("CREDENTIALS_DIRECTORY", directory, 1);
    must(rename(key, text_make(200, "%s/cubby.key", directory)) == 0, "it works");
    ok(secret_store_open(directory, NULL, &store, &err) == -ERR_INVALID, "a systemd credential comes first");
    unsetenv("CREDENTIALS_DIRECTORY");
}

int main(void) {
    must(mkdtemp(directory) != NULL, "it works");
    test_values();
    test_rows();
    test_keys();
    static const char *const names[] = {"secrets.db", "secrets.key", "cubby.key"};
    for (size_t i = 0; i < 3; i++)
        unlink(text_make(200, "%s/%s", directory, names[i]));
    ok(rmdir(directory) == 0, "nothing else is left");
    return tap_end();
}
