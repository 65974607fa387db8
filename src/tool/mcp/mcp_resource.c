/* Files of the workspace as MCP resources: file:///workspace/NAME, or wherever the box has its workspace, with
 * percent-encoded bytes. Called through the methods of mcp.c. Invariant: reading does not create a box, and the size of
 * lists and files is limited. */
#include <jansson.h>

#include "base/base.h"
#include "base/url.h"
#include "skill/catalog/catalog.h"
#include "tool/mcp/mcp_core.h"
#include "tool/offload/sniff.h"
#include "tool/tools/search.h"

#define SCHEME "file://"

struct resource_entry {
    const char *name; /* below the workspace */
    uint64_t size, mtime_ns;
};

struct listing {
    struct arena *arena;
    const char *root;
    struct resource_entry *entries;
    size_t count, room;
};

const char *mcp_workspace(struct mcp_answer *answer) {
    const char *path = WORKSPACE_PATH;
    struct tool_call call;
    struct err err;
    const struct tool_host *host = answer->exchange->host;
    if (!host->find || host->only) /* `cubby mcp` has one box, which it creates when a call needs it */
        return path;
    if (mcp_call_begin(answer, &call, &err) == 0 && tool_box_found(&call, &err) == 0 && call.box)
        path = arena_strdup(answer->exchange->arena, box_workspace(call.box));
    tool_call_done(&call);
    return path;
}

static int resource_listing_each(void *user, const struct file_stat *stat) {
    struct listing *listing = user;
    size_t root = strlen(listing->root);
    if (stat->type != FILE_REGULAR || strncmp(stat->path, listing->root, root) != 0 || stat->path[root] != '/')
        return 0;
    arena_add(listing->arena, listing->entries, listing->count, listing->room) = (struct resource_entry){
        .name = arena_strdup(listing->arena, stat->path + root + 1), .size = stat->size, .mtime_ns = stat->mtime_ns};
    return 0;
}

static int resource_entry_order(const void *left, const void *right) {
    return strcmp(((const struct resource_entry *)left)->name, ((const struct resource_entry *)right)->name);
}

static const char *resource_uri_of(struct arena *arena, const char *root, const char *name) {
    return arena_printf(arena, SCHEME "%s/%s", url_encode(arena, root, URL_PATH), name);
}

/* Finds where a page begins. Returns false for a cursor that is not ours. */
static bool resource_read_cursor(const struct mcp_message *message, struct arena *arena, const char **ret_after) {
    const json_t *cursor = json_object_get(message->params, "cursor");
    autobuf name = buf_max(LIMIT_PATH_BYTES);
    *ret_after = NULL;
    if (!cursor)
        return true;
    if (!json_is_string(cursor) || !text_unbase64(&name, json_string_value(cursor), json_string_length(cursor)) ||
        !name.len || memchr(name.data, 0, name.len))
        return false;
    *ret_after = arena_copy(arena, name.data, name.len);
    return true;
}

void mcp_resources_list(struct mcp_answer *answer) {
    struct listing listing = {.arena = answer->exchange->arena};
    struct tool_call call;
    struct err err = {0};
    const char *after;
    bool more = false;
    if (!resource_read_cursor(answer->message, listing.arena, &after))
        return mcp_refuse(answer->message, MCP_PARAMS, 0,
                          "'cursor' is unknown; use the nextCursor of an earlier answer");
    int code = mcp_call_begin(answer, &call, &err) ?: tool_box_found(&call, &err);
    if (code == 0 && call.box) {
        listing.root = box_workspace(call.box);
        const struct list_request request = {
            .path = listing.root, .depth = LIMIT_LIST_DEPTH, .limit = LIMIT_RESOURCES, .ignore = search_ignored};
        code = box_list(call.box, &request, call.watch, resource_listing_each, &listing, &more, &err);
    }
    if (code == 0) {
        size_t at = 0;
        if (listing.count)
            qsort(listing.entries, listing.count, sizeof *listing.entries, resource_entry_order);
        while (after && at < listing.count && strcmp(listing.entries[at].name, after) <= 0)
            at++;
        size_t end = listing.count - at > LIMIT_RESOURCES_PAGE ? at + LIMIT_RESOURCES_PAGE : listing.count;
        json_put_open(&answer->json, "resources", '[');
        for (; at < end; at++) {
            const struct resource_entry *entry = &listing.entries[at];
            json_open(&answer->json, '{');
            json_put_str(
                &answer->json, "uri",
                resource_uri_of(listing.arena, listing.root, url_encode(listing.arena, entry->name, URL_PATH)));
            json_put_str(&answer->json, "name", entry->name);
            json_put_uint(&answer->json, "size", entry->size);
            json_put_open(&answer->json, "annotations", '{');
            json_put_time(&answer->json, "lastModified", entry->mtime_ns / 1000000);
            json_close(&answer->json, '}');
            json_close(&answer->json, '}');
        }
        json_close(&answer->json, ']');
        if (end != listing.count) {
            const char *last = listing.entries[end - 1].name;
            json_put_bytes(&answer->json, "nextCursor", last, strlen(last), false);
        }
    } else
        mcp_failed(answer, &err);
    tool_call_done(&call);
}

void mcp_resources_templates(struct mcp_answer *answer) {
    struct json *json = &answer->json;
    struct arena *arena = answer->exchange->arena;
    const char *workspace = mcp_workspace(answer);
    json_put_open(json, "resourceTemplates", '[');
    json_open(json, '{');
    json_put_str(json, "uriTemplate", resource_uri_of(arena, workspace, "{+path}"));
    json_put_str(json, "name", "workspace");
    json_put_str(json, "title", "Files of the workspace");
    json_put_str(json, "description", arena_printf(arena, "A file of the box, by its path below %s.", workspace));
    json_close(json, '}');
    json_close(json, ']');
}

/* Returns the path in the box of "file:///workspace/a%20b", or NULL if it is not below the workspace. */
static const char *resource_path(struct tool_call *call, const char *uri) {
    if (strncmp(uri, SCHEME "/", sizeof SCHEME) != 0 || strlen(uri) > 3 * LIMIT_PATH_BYTES)
        return NULL;
    char *path = arena_strdup(call->arena, uri + sizeof SCHEME - 1);
    const char *root = box_workspace(call->box);
    size_t len = strlen(root);
    if (url_decode(path, false) != (ssize_t)strlen(path) || /* an encoded NUL is refused */
        strlen(path) > LIMIT_PATH_BYTES || strncmp(path, root, len) != 0 || path[len] != '/')
        return NULL;
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (!at[3] || at[3] == '/')
            return NULL;
    return path;
}

static const char *resource_media_type(const struct buf *content, bool text) {
    struct sniff sniff;
    if (content->len && sniff_known(content->data, content->len, &sniff) && sniff.type)
        return sniff.type;
    if (content->len >= 5 && memcmp(content->data, "%PDF-", 5) == 0)
        return "application/pdf";
    return text ? "text/plain" : "application/octet-stream";
}

void mcp_resources_read(struct mcp_answer *answer) {
    struct mcp_message *message = answer->message;
    const json_t *value = json_object_get(message->params, "uri");
    const char *uri = json_string_value(value), *path = NULL;
    struct tool_call call;
    struct err err = {0};
    autobuf content = buf_max(LIMIT_RESOURCE_BYTES + 1);
    if (!uri || strlen(uri) != json_string_length(value))
        return mcp_refuse(message, MCP_PARAMS, 0, "'uri' is missing");
    int code = mcp_call_begin(answer, &call, &err) ?: tool_box_found(&call, &err);
    if (code == 0)
        path = call.box ? resource_path(&call, uri) : NULL;
    if (code == 0 && path) {
        code = box_read_all(call.box, path, LIMIT_RESOURCE_BYTES + 1, call.watch, &content, &err);
        if (code == -ERR_TOO_LARGE || (code == 0 && content.len > LIMIT_RESOURCE_BYTES))
            code = err_set(&err, ERR_INVALID,
                           "a resource has at most %u bytes; the tool read_file reads parts of larger files",
                           LIMIT_RESOURCE_BYTES);
    }
    if (code == -ERR_NOT_FOUND || (code == 0 && !path))
        mcp_refuse(message, message->modern ? MCP_PARAMS : MCP_RESOURCE, 0, "no resource '%.200s'", uri);
    else if (code < 0)
        mcp_failed(answer, &err);
    else {
        bool text = text_utf8(content.data, content.len) && !(content.len && memchr(content.data, 0, content.len));
        json_put_open(&answer->json, "contents", '[');
        json_open(&answer->json, '{');
        json_put_str(&answer->json, "uri", uri);
        json_put_str(&answer->json, "mimeType", resource_media_type(&content, text));
        json_key(&answer->json, text ? "text" : "blob");
        json_bytes(&answer->json, content.data, content.len, text);
        json_close(&answer->json, '}');
        json_close(&answer->json, ']');
    }
    tool_call_done(&call);
}
