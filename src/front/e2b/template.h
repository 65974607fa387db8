/* Templates of this dialect: cubby's own (host, base, imported ones), and those that snapshots made. The latter are
 * builds: a build is a kept template (box/snapshot/kept_template.h); a template is all builds with its id, and each of
 * its tags is on one of them. */
#ifndef CUBBY_FRONT_E2B_TEMPLATE_H
#define CUBBY_FRONT_E2B_TEMPLATE_H

#include "box/snapshot/kept_template.h"
#include "front/e2b/e2b.h"

struct e2b_template {
    const char *id, *alias;    /* alias NULL: none */
    const char *original;      /* the id of the template that a snapshot's sandbox was made from; NULL: its own */
    const char *build;         /* the build of a template made of layers; NULL: none */
    const char *base;          /* cubby's template below it */
    const char *backend;       /* NULL: the default */
    const char *const *layers; /* NULL: none */
    const char *setup;         /* setup.h; NULL: none */
};

/* By "name", "name:tag" or an id; in the request's arena. NOT_FOUND, INVALID. */
int e2b_template_find(struct http_request *request, const char *name, struct e2b_template *ret_template,
                      struct err *err);
/* Its layers are needed by the box `id` that is about to be made, or not made after all. */
int e2b_template_hold(struct http_request *request, const struct e2b_template *template, const char *id,
                      struct err *err);
void e2b_template_let_go(struct http_request *request, const struct e2b_template *template, const char *id);

/* Whose templates, and where what is found goes. */
struct e2b_owner {
    struct provider *provider;
    const char *user; /* NULL: everybody's */
    struct arena *arena;
};
struct e2b_owner e2b_owner(struct http_request *request);

struct e2b_build {
    struct kept_template kept;
    const char *template_id;
    const char *build_id; /* as clients know it; NULL: that of kept */
    const char *setup;    /* setup.h, a JSON object; NULL: none */
    const char *name;     /* NULL: none */
    const char **tags;
    const char *original, *alias; /* of the template that its sandbox came from */
    const char *sandbox;          /* whose files they were */
    bool open;                    /* "public" */
};
#define E2B_UUID_BYTES 37
void e2b_uuid(const char *id, char ret_uuid[E2B_UUID_BYTES]); /* of 16 hex digits */
void e2b_build_uuid(const struct e2b_build *build, char ret_uuid[E2B_UUID_BYTES]);
/* Those of the owner, the newest first. */
int e2b_builds(struct e2b_owner owner, struct e2b_build **ret_builds, size_t *ret_count, struct err *err);
/* The text that a kept template has of it. */
int e2b_build_text(struct e2b_owner owner, const struct e2b_build *build, const char **ret_text, struct err *err);
int e2b_build_write(struct e2b_owner owner, const struct e2b_build *build, struct err *err);
/* The tag is on this build from now on, and on no other of its template; a build without tags goes. */
int e2b_build_tag(struct e2b_owner owner, struct e2b_build *build, const char *tag, bool add, struct err *err);
/* "[namespace/]alias[:tag]", in lower case, in the request's arena; no tag: "default". INVALID. */
int e2b_template_name(struct http_request *request, const char *text, const char **ret_name, const char **ret_tag,
                      struct err *err);
/* "tag" or "name:tag": the tag. */
int e2b_template_tag(struct http_request *request, const char *text, const char **ret_tag, struct err *err);
/* A name of a client, and the builds of its user that it may mean. */
struct e2b_named {
    const char *name, *tag;
    struct e2b_build *builds;
    size_t count;
};
int e2b_builds_named(struct http_request *request, const char *text, struct e2b_named *ret_named, struct err *err);
/* Whether a name is that of a template which no build made. */
bool e2b_template_taken(struct http_request *request, const char *name);
/* Of builds the one with that name or template id, and that tag (NULL: any, the newest); NULL: none. */
struct e2b_build *e2b_build_find(struct e2b_build *builds, size_t count, const char *name, const char *tag);

#endif
