/* ZIP uploads of the dialect. Called through its routes. Invariant: an archive is received and checked as a whole
 * before anything changes, so a bad one changes nothing. */

#include "front/filesecbox/filesecbox.h"
#include "http/multipart.h"
#include "skill/own/own.h"

int filesecbox_scope(struct filesecbox *call, const char *field, bool base, struct err *err) {
    const char *scope = call->args.scope.data ? call->args.scope.data : field;
    if (scope && *scope && strcasecmp(scope, "overlay") != 0 && strcasecmp(scope, "baseline") != 0)
        return err_set(err, ERR_INVALID, "scope must be overlay or baseline, not '%.100s'", scope);
    if (scope && *scope)
        base = !strcasecmp(scope, "baseline");
    int failed = base ? filesecbox_admin(call, "a change of an agent's baseline", err) : 0;
    return failed ? failed : base ? SCOPE_BASELINE : SCOPE_OVERLAY;
}

int filesecbox_receive(struct filesecbox *call, uint64_t max, const char *limit, struct filesecbox_upload *ret_upload,
                       struct err *err) {
    struct filesecbox_upload *upload = ret_upload;
    struct multipart_form form;
    *upload = (struct filesecbox_upload){.file.fd = -1};
    int failed = skills_scratch(call->skills, call->user, max, limit, &upload->file, err)
                     ?: multipart_form(call->request, "file", &upload->file, &form, err);
    if (!failed && !form.has_file)
        failed = err_set(err, ERR_INVALID, "the part 'file' is missing");
    if (failed)
        return failed;
    upload->filename = form.file.file_name;
    upload->scope = multipart_field(&form, "scope", NULL);
    return 0;
}

static int filesecbox_unzip(struct filesecbox *call, struct filesecbox_upload *upload, struct err *err) {
    static const char *const reserved[] = {BASE_CREATOR, NULL};
    const struct skill_settings *settings = skills_settings(call->skills);
    const struct zip_limits limits = {.bytes = settings->upload_bytes,
                                      .unpacked_bytes = settings->unpacked_bytes,
                                      .entries = settings->upload_entries};
    STEP(zip_open(upload->file.fd, &limits, &upload->zip, err));
    int failed = zip_skills(upload->zip, reserved, &upload->skills, err);
    return failed && settings->second ? err_wrap(err, "Validation Error") : failed;
}

void filesecbox_upload_done(struct filesecbox_upload *upload) {
    zip_close(upload->zip);
    upload->zip = NULL;
    scratch_done(&upload->file);
}

int filesecbox_changed(struct filesecbox *call, const char *text, const struct own_change *change, struct err *err) {
    autoanswer answer;
    filesecbox_open(&answer, call);
    json_str(&answer.json, text);
    if (change->pending)
        json_put_bool(&answer.json, "pending", true);
    if (change->background)
        json_put_uint(&answer.json, "background", change->background);
    return filesecbox_close(&answer, 0, err);
}

static int upload_put(struct filesecbox *call, struct filesecbox_upload *upload, int scope,
                      struct own_change *ret_change, struct err *err) {
    struct http_request *request = call->request;
    STEP(filesecbox_unzip(call, upload, err));
    for (size_t i = 0; i < 20 && upload->skills[i]; i++)
        trail_quote(request, upload->skills[i]);
    trail_running(request);
    if (scope == SCOPE_BASELINE)
        return base_put_zip(call->skills, call->agent, upload->zip, err);
    int failed = filesecbox_box(call, err);
    /* In the first family a user's layer is merged with the public one file by file. */
    bool merges = !skills_settings(call->skills)->second;
    return failed ? failed
                  : own_put(call->skills, call->box, upload->zip, merges, http_arena(request), ret_change,
                            http_fd(request), err);
}

int filesecbox_upload(struct filesecbox *call, struct err *err) {
    __attribute__((cleanup(filesecbox_upload_done))) struct filesecbox_upload upload = {.file.fd = -1};
    struct own_change change = {0};
    const struct skill_settings *settings = skills_settings(call->skills);
    bool second = settings->second;
    int scope = filesecbox_scope(call, NULL, second, err); /* checked before the body is read */
    int failed =
        scope < 0 ? scope : filesecbox_receive(call, settings->upload_bytes, "skill_upload_bytes", &upload, err);
    if (failed >= 0)
        failed = scope = filesecbox_scope(call, upload.scope, second, err);
    if (failed < 0)
        return filesecbox_form(call, failed, err);
    TRY(upload_put(call, &upload, scope, &change, err));
    autobuf text = buf_max(4u << 20);
    bool base = second && scope == SCOPE_BASELINE;
    buf_puts(&text, base ? "Baseline updated successfully. Skills: [" : "Upload successful: ");
    for (const char *const *skill = upload.skills; *skill; skill++) {
        buf_puts(&text, skill != upload.skills ? ", " : "");
        if (base)
            buf_puts(&text, *skill);
        else
            buf_printf(&text, "skill '%s' to '" SKILL_PATH "/%s'", *skill, *skill);
    }
    buf_puts(&text, base ? "]" : "");
    const char *shown = buf_cstr(&text);
    return filesecbox_changed(call, shown ? shown : "Upload successful.", &change, err);
}
