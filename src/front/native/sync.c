/* Global skills and sub-agents of a box over HTTP: what came of placing them, and placing them again. Called through
 * native_routes. */
#include "front/answer.h"
#include "front/native/args.h"
#include "front/native/native.h"
#include "front/native/skill.h"

static int sync_answer(struct http_request *request, const struct sync_report *report, struct err *err) {
    const struct sync_out out = {.report = *report,
                                 .version = *report->version ? report->version : NULL,
                                 .error = *report->error ? report->error : NULL};
    return answer_rows(request, 200, sync_report_answer, &out, err);
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
