/* JSON from anybody: the exec and acquire tables, and the message that a machine registers with, over any bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "rows/rows.h"
#include "front/native/args.h"
#include "front/join/join.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_texts(const char **texts) {
    for (size_t i = 0; texts && texts[i]; i++)
        if (strlen(texts[i]) > (64u << 20))
            abort();
}

static void fuzz_hello(const uint8_t *data, size_t size) {
    autoarena arena;
    struct err err = {0};
    struct runner_hello hello = {0};
    arena_init(&arena);
    int result = runner_hello_parse(data, size, &arena, &hello, &err);
    if ((result < 0) != (err.code > 0) || (result < 0 && hello.workspace))
        abort();
    if (!result && (hello.workspace[0] != '/' || strlen(hello.workspace) > 4095 || strlen(hello.can) > 256 ||
                    (*hello.session && strlen(hello.session) != 32)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct row *const tables[] = {exec_fields, acquire_fields, edit_fields};
    if (!size)
        return 0;
    fuzz_hello(data, size);
    union {
        struct native_args exec;
        struct acquire_args acquire;
        struct native_args edit;
    } args;
    memset(&args, 0, sizeof args);
    unsigned which = data[0] % 3;
    autoarena arena;
    struct err err = {0};
    arena_init(&arena);
    int result = rows_parse((const char *)data + 1, size - 1, tables[which], &arena, &args, &err);
    if ((result < 0) != (err.code > 0) || strnlen(err.text, sizeof err.text) == sizeof err.text)
        abort();
    if (!result && which == 0) {
        fuzz_texts(args.exec.argv);
        fuzz_texts(args.exec.env);
        if (args.exec.command.data && strlen(args.exec.command.data) != args.exec.command.len)
            abort();
    }
    return 0;
}
