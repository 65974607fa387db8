/* The router: a tree of path segments, literal ones before {x}. Built once at start, read by every worker.
 *
 * A path is matched first, then the method: a known path with another method is 405, not 404. */
#include "base/base.h"
#include "http/internal.h"

struct route_entry {
    const struct route *route;
    struct route_entry *next;
};

struct route_node {
    char *literal; /* NULL: root or {x} */
    size_t len;
    struct route_node *children, *sibling, *any, *tail; /* tail: {x...} */
    struct route_entry *entries;
};

static struct route_node *route_node_child(struct route_node *node, const char *segment, size_t len) {
    struct route_node **at = &node->children;
    if (segment[0] == '{') {
        at = len > 4 && memcmp(segment + len - 4, "...}", 4) == 0 ? &node->tail : &node->any;
    } else {
        while (*at && ((*at)->len != len || memcmp((*at)->literal, segment, len) != 0))
            at = &(*at)->sibling;
    }
    struct route_node *child = *at;
    if (child)
        return child;
    child = xcalloc(1, sizeof *child);
    child->literal = segment[0] == '{' ? NULL : xstrndup(segment, len);
    child->len = len;
    *at = child;
    return child;
}

static const struct route *node_method(const struct route_node *node, const char *method) {
    for (const struct route_entry *entry = node->entries; entry; entry = entry->next)
        if (strcmp(entry->route->method, method) == 0)
            return entry->route;
    return NULL;
}

static int route_node_add(struct route_node *node, const struct route *route, struct err *err) {
    if (route->pattern[0] != '/' || !route->handle)
        return err_set(err, ERR_INVALID, "route '%s' needs a handler and a pattern that begins with '/'",
                       route->pattern);
    const struct route *other = node_method(node, route->method);
    if (other)
        return err_set(err, ERR_EXISTS, "routes %s and %s of %s are the same path", other->pattern, route->pattern,
                       route->method);
    struct route_entry *entry = xcalloc(1, sizeof *entry);
    *entry = (struct route_entry){route, node->entries};
    node->entries = entry;
    return 0;
}

int route_tree_new(const struct route *routes, struct route_node **ret_tree, struct err *err) {
    struct route_node *tree = xcalloc(1, sizeof *tree);
    for (const struct route *route = routes; route && route->method; route++) {
        struct route_node *node = tree;
        int params = 0;
        const char *at = route->pattern;
        while (at[0] == '/' && at[1]) {
            size_t len = strcspn(++at, "/");
            params += at[0] == '{';
            node = route_node_child(node, at, len);
            at += len;
        }
        int result = params > HTTP_PARAMS
                         ? err_set(err, ERR_INVALID, "route %s has too many parameters", route->pattern)
                         : route_node_add(node, route, err);
        if (result < 0) {
            route_tree_free(tree);
            return result;
        }
    }
    *ret_tree = tree;
    return 0;
}

void route_tree_free(struct route_node *tree) {
    if (!tree)
        return;
    route_tree_free(tree->children);
    route_tree_free(tree->sibling);
    route_tree_free(tree->any);
    route_tree_free(tree->tail);
    while (tree->entries) {
        struct route_entry *next = tree->entries->next;
        free(tree->entries);
        tree->entries = next;
    }
    free(tree->literal);
    free(tree);
}

/* at is the slash before the next segment, or the end. Tries {x} if the literal does not match; the depth is bounded by
 * the tree, not by the path. */
static bool route_node_match(const struct route_node *node, const char *at, bool tail, struct route_found *found) {
    if (!at[0] || (at[0] == '/' && !at[1] && !node->literal && !node->len)) {
        node = tail ? node->tail : node;
        found->node = node && node->entries ? node : NULL;
        return found->node;
    }
    const char *segment = at + 1;
    size_t len = strcspn(segment, "/");
    for (const struct route_node *child = node->children; child; child = child->sibling)
        if (child->len == len && memcmp(child->literal, segment, len) == 0) {
            if (route_node_match(child, segment + len, tail, found))
                return true;
            break;
        }
    if (!node->any || !len || found->count == HTTP_PARAMS)
        return false;
    size_t mine = found->count++;
    found->params[mine].at = segment;
    found->params[mine].len = len;
    if (route_node_match(node->any, segment + len, tail, found))
        return true;
    found->count = mine;
    return false;
}

void route_find(const struct route_node *tree, const char *method, const char *path, bool tail,
                struct route_found *found) {
    *found = (struct route_found){.count = 0};
    if (!route_node_match(tree, path, tail, found))
        return;
    found->route = node_method(found->node, method);
    if (!found->route && strcmp(method, "HEAD") == 0)
        found->route = node_method(found->node, "GET");
    if (!found->route)
        found->route = node_method(found->node, "ANY");
}

/* at is the slash before the next segment of a target, end its end. Returns where a {x...} begins, or NULL. */
static const char *route_node_tail(const struct route_node *node, const char *at, const char *end) {
    if (at >= end)
        return NULL;
    if (node->tail)
        return at;
    const char *segment = at + 1;
    size_t len = strcspn(segment, "/?");
    for (const struct route_node *child = node->children; child; child = child->sibling)
        if (child->len == len && memcmp(child->literal, segment, len) == 0) {
            const char *found = route_node_tail(child, segment + len, end);
            if (found)
                return found;
            break;
        }
    return node->any && len ? route_node_tail(node->any, segment + len, end) : NULL;
}

size_t route_tail(const struct route_node *tree, const char *target) {
    const char *found = route_node_tail(tree, target, target + strcspn(target, "?"));
    return found ? (size_t)(found - target) : 0;
}

void route_allow(const struct route_node *node, struct buf *out) {
    for (const struct route_entry *entry = node->entries; entry; entry = entry->next) {
        buf_puts(out, out->len ? ", " : "");
        buf_puts(out, entry->route->method);
        if (strcmp(entry->route->method, "GET") == 0 && !node_method(node, "HEAD"))
            buf_puts(out, ", HEAD");
    }
}
