/* How rows of native requests and answers are written. Private to the files of native/args.h. */
#ifndef CUBBY_FRONT_NATIVE_ROWS_H
#define CUBBY_FRONT_NATIVE_ROWS_H

#define ROW(label, kind, args, member) .name = (label), .type = BODY_##kind, .offset = offsetof(struct args, member)
#define PATH_ROW(args, member, label, meaning)                                                                         \
    {                                                                                                                  \
        ROW(label, TEXT, args, member), .flags = BODY_REQUIRED | BODY_TOLD | BODY_BYTES, .min = 1,                     \
                                        .max = LIMIT_PATH_BYTES, .text = (meaning)                                     \
    }
#define END                                                                                                            \
    { .name = NULL }
#define SHOW(label, kind, meaning)                                                                                     \
    { .name = (label), .type = BODY_##kind, .max = INT64_MAX, .text = (meaning) }
#define SHOW_NULL(label, kind, meaning)                                                                                \
    { .name = (label), .type = BODY_##kind, .flags = BODY_NULLABLE, .max = INT64_MAX, .text = (meaning) }

#endif
