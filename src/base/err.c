/* The table of failures and the sentences that go with them. Called from everywhere; depends on libc alone. */
#include "base/base.h"

static const struct {
    int code;
    int status;
    const char *name;
} err_table[] = {
#define X(name, number, status) {(number), (status), #name},
    ERR_LIST(X)
#undef X
};

static const struct {
    int number;
    enum err_code code;
} err_errnos[] = {
    {ENOENT, ERR_NOT_FOUND},     {EACCES, ERR_DENIED},          {EPERM, ERR_DENIED},      {EROFS, ERR_DENIED},
    {EEXIST, ERR_EXISTS},        {ENOTEMPTY, ERR_EXISTS},       {EBUSY, ERR_BUSY},        {EAGAIN, ERR_BUSY},
    {EINVAL, ERR_INVALID},       {ENOTDIR, ERR_INVALID},        {EISDIR, ERR_INVALID},    {ELOOP, ERR_INVALID},
    {ENAMETOOLONG, ERR_INVALID}, {ENXIO, ERR_INVALID},          {EXDEV, ERR_INVALID},     {E2BIG, ERR_TOO_LARGE},
    {EFBIG, ERR_TOO_LARGE},      {ENOMEM, ERR_LIMIT},           {EMFILE, ERR_LIMIT},      {ENFILE, ERR_LIMIT},
    {ENOSYS, ERR_UNSUPPORTED},   {EOPNOTSUPP, ERR_UNSUPPORTED}, {ETIMEDOUT, ERR_TIMEOUT}, {ESRCH, ERR_NOT_FOUND},
    {ENOEXEC, ERR_INVALID},      {EILSEQ, ERR_INVALID},         {ETXTBSY, ERR_BUSY},      {ENOSPC, ERR_FULL},
    {EDQUOT, ERR_FULL},          {EUSERS, ERR_LIMIT},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The number of bytes of the sentence, or negative. */
static int err_say(struct err *err, enum err_code code, int number, const char *format, va_list args) {
    err->code = (int)code;
    err->number = number;
    err->why = WHY_NONE;
    return vsnprintf(err->text, sizeof err->text, format, args);
}

int err_set(struct err *err, enum err_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    err_say(err, code, 0, format, args);
    va_end(args);
    return -(int)code;
}

int err_set_why(struct err *err, enum err_code code, enum err_why why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    err_say(err, code, 0, format, args);
    va_end(args);
    err->why = why;
    return -(int)code;
}

int err_errno(struct err *err, int number, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = err_say(err, err_from_errno(number), number, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof err->text)
        snprintf(err->text + length, sizeof err->text - (size_t)length, ": %s", strerror(number));
    return -err->code;
}

int err_text(struct err *err, int number, const char *format, ...) {
    va_list args;
    va_start(args, format);
    err_say(err, err_from_errno(number), number, format, args);
    va_end(args);
    return -err->code;
}

int err_wrap(struct err *err, const char *format, ...) {
    char before[sizeof err->text];
    memcpy(before, err->text, sizeof before);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    int room = (int)sizeof err->text - length;
    if (length >= 0 && room > 3) /* a long sentence is cut, its context is not */
        snprintf(err->text + length, (size_t)room, ": %.*s", room - 3, before);
    return -err->code;
}

enum err_code err_from_errno(int number) {
    for (size_t i = 0; i < COUNT(err_errnos); i++)
        if (err_errnos[i].number == number)
            return err_errnos[i].code;
    return ERR_IO;
}

const char *err_name(int code) {
    for (size_t i = 0; i < COUNT(err_table); i++)
        if (err_table[i].code == code)
            return err_table[i].name;
    return "INTERNAL";
}

int err_http_status(int code) {
    for (size_t i = 0; i < COUNT(err_table); i++)
        if (err_table[i].code == code)
            return err_table[i].status;
    return 500;
}

int err_from_wire(unsigned number) {
    for (size_t i = 0; i < COUNT(err_table); i++)
        if (err_table[i].code == (int)number)
            return err_table[i].code;
    return ERR_PROTOCOL;
}

unsigned err_wire_number(const struct err *err) {
    return (unsigned)(err->number & 0xfff) | (unsigned)err->why << 12;
}

void err_wire_take(struct err *err, unsigned long long number) {
    if (number >> 12 >= WHY_COUNT)
        return;
    err->number = (int)(number & 0xfff);
    err->why = (enum err_why)(number >> 12);
}
