/* Where the engine is: what was configured, what the environment says, or the first socket that is there. Called by
 * engine_new. Invariant: the environment's TLS settings belong to the environment's engine, never to one that the
 * configuration named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/docker/engine/client.h"
#include "base/mem.h"
#include "base/text.h"

#define URL_BYTES 1024u

void engine_place_done(struct engine_place *place) {
    free(place->url);
    free(place->address);
    free(place->cert_dir);
}

static bool is_socket(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* The sockets engines listen at unless they are told otherwise; %s is the user's runtime directory. */
static void default_url(char *url, size_t size) {
    static const char *const paths[] = {"/var/run/docker.sock", "/run/podman/podman.sock", "%s/docker.sock",
                                        "%s/podman/podman.sock"};
    const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
    char own_dir[64], path[512];
    snprintf(own_dir, sizeof own_dir, "/run/user/%u", (unsigned)getuid());
    if (!runtime_dir || runtime_dir[0] != '/')
        runtime_dir = own_dir;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *rest = strncmp(paths[i], "%s", 2) == 0 ? paths[i] + 2 : NULL;
        int len =
            rest ? snprintf(path, sizeof path, "%s%s", runtime_dir, rest) : snprintf(path, sizeof path, "%s", paths[i]);
        if (len > 0 && (size_t)len < sizeof path && is_socket(path)) {
            snprintf(url, size, "unix://%s", path);
            return;
        }
    }
    snprintf(url, size, "unix://%s", paths[0]);
}

static int place_bad(const char *url, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID,
                   "'%.200s' is no address of a container engine (%s): unix:///PATH or tcp://HOST:PORT", url, why);
}

static int place_unix(struct engine_place *place, const char *path, struct err *err) {
    struct sockaddr_un address;
    if (path[0] != '/')
        return place_bad(place->url, "the path is not absolute", err);
    if (strlen(path) >= sizeof address.sun_path)
        return place_bad(place->url, "the path of its socket is too long", err);
    place->near = true;
    place->address = xasprintf("unix:%s", path);
    return 0;
}

static int place_tcp(struct engine_place *place, const char *rest, struct err *err) {
    size_t len = strlen(rest);
    if (len && rest[len - 1] == '/')
        len--;
    const char *host = rest, *colon = memrchr(rest, ':', len), *bracket = memchr(rest, ']', len);
    size_t host_len = colon && (!bracket || colon > bracket) ? (size_t)(colon - rest) : len;
    uint64_t number = place->tls ? 2376 : 2375;
    if (host_len < len) {
        char port[8] = "";
        size_t port_len = len - host_len - 1;
        if (port_len < sizeof port)
            memcpy(port, colon + 1, port_len);
        if (!text_u64(port, 65535, &number) || number == 0)
            return place_bad(place->url, "its port is none", err);
    }
    if (host_len && host[0] == '[') {
        if (!bracket || bracket != host + host_len - 1)
            return place_bad(place->url, "a bracket is missing", err);
        host++;
        host_len -= 2;
    }
    for (size_t i = 0; i < host_len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%", host[i]))
            return place_bad(place->url, "its host is none", err);
    if (!host_len)
        return place_bad(place->url, "a host is missing", err);
    bool numeric = memchr(host, ':', host_len);
    place->address = xasprintf("%s://%s%.*s%s:%u", place->tls ? "https" : "http", numeric ? "[" : "", (int)host_len,
                               host, numeric ? "]" : "", (unsigned)number);
    return 0;
}

static int place_parse(struct engine_place *place, struct err *err) {
    const char *url = place->url;
    if (strlen(url) >= URL_BYTES)
        return place_bad(url, "it is too long", err);
    for (const char *p = url; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127)
            return place_bad("…", "it holds a space or a control character", err);
    if (strncasecmp(url, "unix://", 7) == 0)
        return place_unix(place, url + 7, err);
    if (strncasecmp(url, "https://", 8) == 0)
        place->tls = true;
    static const char *const schemes[] = {"tcp://", "http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            return place_tcp(place, url + strlen(schemes[i]), err);
    if (strncasecmp(url, "ssh://", 6) == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "'%.200s': an engine over ssh is not supported; forward its socket (`ssh -L "
                       "/PATH/docker.sock:/var/run/docker.sock HOST`) and name unix:///PATH/docker.sock",
                       url);
    return place_bad(url, "no such scheme", err);
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

int engine_place_find(const struct engine_where *where, struct engine_place *ret_place, struct err *err) {
    struct engine_place place = {.tls = where->tls || where->cert_dir};
    char url[URL_BYTES], home_dir[512];
    const char *cert_dir = where->cert_dir, *named = where->url ? where->url : environment("DOCKER_HOST");
    if (!named) {
        default_url(url, sizeof url);
        named = url;
    }
    if (!where->url && !cert_dir && environment("DOCKER_TLS_VERIFY")) {
        place.tls = true;
        cert_dir = environment("DOCKER_CERT_PATH");
        if (!cert_dir && environment("HOME")) {
            snprintf(home_dir, sizeof home_dir, "%s/.docker", environment("HOME"));
            cert_dir = home_dir;
        }
    }
    place.url = xstrdup(named);
    int code = place_parse(&place, err);
    if (code < 0) {
        engine_place_done(&place);
        return code;
    }
    if (place.near) /* the kernel is the wall there */
        place.tls = false;
    else if (place.tls && cert_dir)
        place.cert_dir = xstrdup(cert_dir);
    *ret_place = place;
    return 0;
}
