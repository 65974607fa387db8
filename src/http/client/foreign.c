/* The only place that decides by the words of others. Called by the HTTP client, the docker backend and the text form of
 * machines. Invariant: words of our own never come here; our errors carry a code and a reason. */
#include "http/client/foreign.h"

#include "base/base.h"
#include "http/client/client_curl.h"

#define PRUNE "; free space where the engine keeps its data (`docker system prune`)"
#define ACCOUNT "; use a name that the image has, or a number"
#define PROCESSOR "; a program there is for another processor"

/* The first row that matches counts. */
static const struct {
    enum foreign source;
    int number;               /* 0: any */
    const char *words, *also; /* the text has one of words, and one of also; NULL: any text */
    enum err_code code;
    enum err_why why;
    const char *fix;
} foreign_rows[] = {
    {FOREIGN_CURL, CURLE_RECV_ERROR, .words = "chunk", .code = ERR_PROTOCOL},
    {FOREIGN_CURL, .words = " alert ", .also = "certificate", .code = ERR_DENIED},
    {FOREIGN_RUNNER, .words = "unknown request type", .code = ERR_UNSUPPORTED},
    {FOREIGN_RUNNER, ERR_IO, .words = "not empty", .code = ERR_EXISTS},
    {FOREIGN_PROGRESS, .words = "download complete|pull complete", .code = ERR_EXISTS},
    {FOREIGN_PROGRESS, .words = "downloading", .code = ERR_BUSY},
    {FOREIGN_PULL, .words = "no space left|disk quota", .code = ERR_LIMIT},
    {FOREIGN_PULL, .words = "no matching manifest|no image found in", .code = ERR_UNSUPPORTED},
    {FOREIGN_PULL, .words = "unauthorized|denied|authentication required|forbidden|no basic auth|401 |403 ",
     .code = ERR_DENIED},
    {FOREIGN_PULL, .words = "not found|manifest unknown|name unknown|does not exist", .code = ERR_NOT_FOUND},
    {FOREIGN_PULL, .code = ERR_BUSY},
    {FOREIGN_IMPORT, .words = "no space left", .code = ERR_LIMIT},
    {FOREIGN_IMPORT, .code = ERR_IO},
    {FOREIGN_ENGINE, .words = "bind source path does not exist", .code = ERR_INVALID, .why = WHY_UNSEEN},
    {FOREIGN_ENGINE, .words = "statfs", .also = "no such file or directory", .code = ERR_INTERNAL, .why = WHY_UNSEEN},
    {FOREIGN_ENGINE, .words = "no space left on device|disk quota exceeded", .code = ERR_FULL, .fix = PRUNE},
    {FOREIGN_ENGINE, .words = "unable to find user|unable to find group", .code = ERR_INVALID, .fix = ACCOUNT},
    {FOREIGN_ENGINE, .words = "exec format error", .code = ERR_UNSUPPORTED, .fix = PROCESSOR},
    {FOREIGN_ENGINE, .words = "already in progress", .code = ERR_BUSY},
    {FOREIGN_ENGINE, 409, .words = "is already in use", .code = ERR_EXISTS},
    {FOREIGN_ENGINE, 409, .words = "paused", .code = ERR_BUSY, .why = WHY_PAUSED},
    {FOREIGN_ENGINE, 500, .words = "paused", .code = ERR_INTERNAL, .why = WHY_PAUSED},
    {FOREIGN_ENGINE, 409, .code = ERR_BUSY},
    {FOREIGN_ENGINE, 400, .code = ERR_INVALID},
    {FOREIGN_ENGINE, 401, .code = ERR_DENIED},
    {FOREIGN_ENGINE, 403, .code = ERR_DENIED},
    {FOREIGN_ENGINE, 404, .code = ERR_NOT_FOUND},
    {FOREIGN_ENGINE, 413, .code = ERR_TOO_LARGE},
    {FOREIGN_ENGINE, 429, .code = ERR_LIMIT},
    {FOREIGN_ENGINE, 501, .code = ERR_UNSUPPORTED},
    {FOREIGN_ENGINE, 502, .code = ERR_BUSY},
    {FOREIGN_ENGINE, 503, .code = ERR_BUSY},
    {FOREIGN_ENGINE, 504, .code = ERR_TIMEOUT},
    {FOREIGN_ENGINE, 507, .code = ERR_FULL},
    {FOREIGN_ENGINE, .code = ERR_INTERNAL},
};

static bool foreign_says(const char *text, const char *words) {
    char word[64];
    for (size_t len; words; words = words[len] ? words + len + 1 : NULL) {
        len = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)len, words);
        if (strcasestr(text, word))
            return true;
    }
    return false;
}

enum err_code foreign_judge(enum foreign source, int number, const char *text, enum err_why *ret_why,
                            const char **ret_fix) {
    __typeof__(&foreign_rows[0]) row = foreign_rows, end = row + sizeof foreign_rows / sizeof *foreign_rows;
    while (row < end &&
           (row->source != source || (row->number && row->number != number) ||
            (row->words && !foreign_says(text, row->words)) || (row->also && !foreign_says(text, row->also))))
        row++;
    if (ret_why)
        *ret_why = row < end ? row->why : WHY_NONE;
    if (ret_fix)
        *ret_fix = row < end && row->fix ? row->fix : "";
    return row < end ? row->code : 0;
}
