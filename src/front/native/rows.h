/* How rows of native requests and answers are written. Private to the files of native/args.h. */
#ifndef CUBBY_FRONT_NATIVE_ROWS_H
#define CUBBY_FRONT_NATIVE_ROWS_H

#define ROW(label, kind, args, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member)
#define PATH_ROW(args, member, label, meaning)                                                                         \
    {                                                                                                                  \
        ROW(label, TEXT, args, member), .flags = ROW_REQUIRED | ROW_AUDITED | ROW_ANY_BYTES, .min = 1,                 \
                                        .max = LIMIT_PATH_BYTES, .text = (meaning)                                     \
    }
#define END                                                                                                            \
    { .name = NULL }
#define SHOW(label, kind, meaning)                                                                                     \
    { .name = (label), .type = ROW_##kind, .max = INT64_MAX, .text = (meaning) }
#define SHOW_NULL(label, kind, meaning)                                                                                \
    { .name = (label), .type = ROW_##kind, .flags = ROW_NULLABLE, .max = INT64_MAX, .text = (meaning) }

#endif
