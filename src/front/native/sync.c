/* Global skills and sub-agents of a box over HTTP: what came of placing them, and placing them again. Called through
 * native_routes. */
#include "base/clock.h"
#include "front/answer.h"
#include "front/native/native.h"
#include "skill/registry/sync.h"

static int sync_answer(struct http_request *request, const struct sync_report *report, struct err *err) {
    autoanswer answer;
    char at[CLOCK_TEXT_BYTES];
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    const struct {
        const char *name, *text;
    } texts[] = {{"how", report->how},
                 {"version", *report->version ? report->version : NULL},
                 {"at", report->at_ms ? clock_text(report->at_ms, at) : NULL},
                 {"error", *report->error ? report->error : NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_put_str(&answer.json, texts[i].name, texts[i].text);
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {{"written", report->written},
                  {"removed", report->removed},
                  {"kept", report->kept},
                  {"unchanged", report->unchanged}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_put_uint(&answer.json, counts[i].name, counts[i].count);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

int native_synced(struct http_request *request, struct box *box, struct err *err) {
    struct sync_report report = {.how = "none"};
    sync_last(front_of(request)->skills, box, &report);
    return sync_answer(request, &report, err);
}

/* What failed is in the report: the client asked what comes of it. */
int native_sync(struct http_request *request, struct box *box, struct err *err) {
    struct sync_report report = {.how = "none"};
    struct err failed;
    int code = sync_box(front_of(request)->skills, box, &report, &failed);
    if (code == -ERR_GONE) {
        *err = failed;
        return code;
    }
    return sync_answer(request, &report, err);
}
