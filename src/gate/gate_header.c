/* Headers that an entry of a policy sets in requests to its host, and references to secrets in their values
 * (gate_policy.h). Called by gate_policy.c; the seal writes them. Invariant: a header that frames a message, or says who
 * it is for, cannot be set. */
#include <ctype.h>
#include <strings.h>

#include "base/base.h"
#include "gate/gate_policy.h"

#define HEADER_SECRETS "${secrets."

static const char *const header_refused[] = {
    "host",    "connection", "content-length", "transfer-encoding", "upgrade",          "te", "accept-encoding",
    "trailer", "expect",     "keep-alive",     "http2-settings",    "proxy-connection", NULL};

static bool header_name_ok(const char *name) {
    size_t len = strlen(name);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c))
            return false;
    return len && len <= GATE_HEADER_NAME_BYTES;
}

static bool header_value_ok(const char *value) {
    size_t len = strlen(value);
    for (const char *c = value; *c; c++)
        if (((uint8_t)*c < 0x20 && *c != '\t') || *c == 0x7f)
            return false;
    return len <= GATE_HEADER_VALUE_BYTES && (!len || (!isspace((unsigned char)*value) && value[len - 1] != ' '));
}

bool gate_reference(const char *text, struct gate_reference *ret_reference) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    const char *at = strstr(text, "${");
    if (!at)
        return false;
    struct gate_reference reference = {.at = at, .end = at + 2};
    if (strncmp(at, HEADER_SECRETS, strlen(HEADER_SECRETS)) == 0) {
        const char *name = at + strlen(HEADER_SECRETS);
        size_t len = strspn(name, letters);
        if (len && len <= LIMIT_SECRET_NAME_BYTES && name[len] == '}') {
            memcpy(reference.name, name, len);
            reference.end = name + len + 1;
        }
    }
    *ret_reference = reference;
    return true;
}

static int header_refuse(struct err *err, const struct gate_entry *entry, const char *name, const char *why) {
    return err_set(err, ERR_INVALID, "network entry '%.120s': header '%.64s' %s", entry->text, name, why);
}

static int header_parse(struct gate_entry *entry, const char *name, const json_t *value, struct err *err) {
    const char *text = json_string_value(value);
    struct gate_reference reference;
    if (!header_name_ok(name))
        return header_refuse(err, entry, name, "has a name that no header can have, or more than 64 bytes");
    for (size_t i = 0; header_refused[i]; i++)
        if (strcasecmp(name, header_refused[i]) == 0)
            return header_refuse(err, entry, name, "belongs to the connection and cannot be set");
    for (size_t i = 0; i < entry->header_count; i++)
        if (strcasecmp(entry->headers[i].name, name) == 0)
            return header_refuse(err, entry, name, "is named twice");
    if (!text || !header_value_ok(text) || strlen(text) != json_string_length(value))
        return header_refuse(err, entry, name,
                             "needs a text of at most 2048 bytes, without control characters and without blanks at "
                             "its ends");
    for (const char *at = text; gate_reference(at, &reference); at = reference.end)
        if (!reference.name[0])
            return header_refuse(err, entry, name, "has '${', which only begins a reference: ${secrets.NAME}");
    struct gate_header *header = &entry->headers[entry->header_count++];
    header->name = xstrdup(name);
    header->value = xstrdup(text);
    for (char *c = header->name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return 0;
}

int gate_headers_parse(json_t *value, struct gate_entry *entry, struct err *err) {
    size_t count = json_object_size(value);
    const char *name;
    json_t *member;
    if (!json_is_object(value) || !count || count > GATE_HEADERS)
        return err_set(err, ERR_INVALID, "network entry '%.120s': 'headers' is an object with 1 to %d headers",
                       entry->text, GATE_HEADERS);
    entry->headers = xcalloc(count, sizeof *entry->headers);
    json_object_foreach(value, name, member) TRY(header_parse(entry, name, member, err));
    return 0;
}

json_t *gate_headers_json(const struct gate_entry *entry, bool values) {
    json_t *object = json_object();
    for (size_t i = 0; i < entry->header_count; i++)
        json_object_set_new(object, entry->headers[i].name, json_string(values ? entry->headers[i].value : ""));
    return object;
}

void gate_headers_done(struct gate_entry *entry) {
    for (size_t i = 0; i < entry->header_count; i++) {
        free(entry->headers[i].name);
        free(entry->headers[i].value);
    }
    free(entry->headers);
}
