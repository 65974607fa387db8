/* Where the engine is: by the configuration, by the environment, or at the first default socket that exists. Called
 * by engine_new. Invariant: the environment's TLS settings belong to the environment's engine, never to a configured
 * one. */
#include <sys/un.h>

#include "base/base.h"
#include "backend/docker/engine/client.h"

#define URL_BYTES 1024u

void engine_place_done(struct engine_place *place) {
    free(place->url);
    free(place->address);
    free(place->cert_dir);
}

/* The sockets engines listen at by default; %s is the user's runtime directory. */
static void place_default(char *url, size_t size) {
    static const char *const paths[] = {"/var/run/docker.sock", "/run/podman/podman.sock", "%s/docker.sock",
                                        "%s/podman/podman.sock"};
    const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
    char own_dir[64], path[512];
    struct stat status;
    snprintf(own_dir, sizeof own_dir, "/run/user/%u", (unsigned)getuid());
    if (!runtime_dir || runtime_dir[0] != '/')
        runtime_dir = own_dir;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        bool users = paths[i][0] == '%';
        int len = snprintf(path, sizeof path, "%s%s", users ? runtime_dir : "", paths[i] + (users ? 2 : 0));
        if ((size_t)len < sizeof path && stat(path, &status) == 0 && S_ISSOCK(status.st_mode)) {
            snprintf(url, size, "unix://%s", path);
            return;
        }
    }
    snprintf(url, size, "unix://%s", paths[0]);
}

static int place_bad(const char *url, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID,
                   "'%.200s' is not the address of a container engine (%s): use unix:///PATH or tcp://HOST:PORT", url,
                   why);
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
            return place_bad(place->url, "the port is not a number from 1 to 65535", err);
    }
    if (host_len && host[0] == '[') {
        if (!bracket || bracket != host + host_len - 1)
            return place_bad(place->url, "']' is missing", err);
        host++;
        host_len -= 2;
    }
    for (size_t i = 0; i < host_len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%", host[i]))
            return place_bad(place->url, "the host contains an invalid character", err);
    if (!host_len)
        return place_bad(place->url, "the host is missing", err);
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
            return place_bad("…", "it contains a space or a control character", err);
    if (strncasecmp(url, "unix://", 7) == 0) {
        if (url[7] != '/')
            return place_bad(url, "the path is not absolute", err);
        if (strlen(url + 7) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
            return place_bad(url, "the path of its socket is too long", err);
        place->near = true;
        place->address = xasprintf("unix:%s", url + 7);
        return 0;
    }
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
    return place_bad(url, "unknown scheme", err);
}

static const char *place_environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

int engine_place_find(const struct engine_where *where, struct engine_place *ret_place, struct err *err) {
    struct engine_place place = {.tls = where->tls || where->cert_dir};
    char url[URL_BYTES], home_dir[512];
    const char *cert_dir = where->cert_dir, *named = where->url ? where->url : place_environment("DOCKER_HOST");
    if (!named) {
        place_default(url, sizeof url);
        named = url;
    }
    if (!where->url && !cert_dir && place_environment("DOCKER_TLS_VERIFY")) {
        place.tls = true;
        cert_dir = place_environment("DOCKER_CERT_PATH");
        if (!cert_dir && place_environment("HOME")) {
            snprintf(home_dir, sizeof home_dir, "%s/.docker", place_environment("HOME"));
            cert_dir = home_dir;
        }
    }
    place.url = xstrdup(named);
    int code = place_parse(&place, err);
    if (code < 0) {
        engine_place_done(&place);
        return code;
    }
    if (place.near) /* the kernel protects a local socket */
        place.tls = false;
    else if (place.tls && cert_dir)
        place.cert_dir = xstrdup(cert_dir);
    *ret_place = place;
    return 0;
}
