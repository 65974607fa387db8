/* What boxes with an inspected host trust: the bundles of their template, for Java and browsers too, with the authority of
 * this installation. Called by the provider's hook. Invariant: nothing of it is written into a box's own files. */
#include <openssl/pem.h>

#include "base/base.h"
#include "base/sha256.h"
#include "box/secret/seal.h"

enum { AUTHORITY_BUNDLE_BYTES = 4 << 20, TRUST_JAVA = 4 };

/* Where systems have their bundle. */
static const char *const trust_bundles[] = {"etc/ssl/certs/ca-certificates.crt",
                                            "etc/pki/tls/certs/ca-bundle.crt",
                                            "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                            "etc/ssl/ca-bundle.pem",
                                            "var/lib/ca-certificates/ca-bundle.pem",
                                            "etc/ssl/cert.pem"};

static bool trust_read(int root, const char *path, struct buf *out) {
    struct stat status;
    autofd fd = path_open(root, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > AUTHORITY_BUNDLE_BYTES)
        return false;
    uint8_t *room = buf_reserve(out, (size_t)status.st_size + 1);
    ssize_t n = room ? fd_read_full(fd, room, (size_t)status.st_size) : -1;
    out->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* STATE/gate/bundles/HASH.pem of these bytes; the path in arena. */
static int trust_bundle(const char *state, const struct buf *text, struct arena *arena, const char **ret_path,
                        struct err *err) {
    uint8_t hash[32];
    char name[65];
    sha256(text->data, text->len, hash);
    text_hex(name, hash, 16);
    autofd gate = authority_directory(state, err);
    if (gate < 0)
        return gate;
    if (mkdirat(gate, "bundles", 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "STATE/gate/bundles");
    autofd dir = openat(gate, "bundles", O_DIRECTORY | O_PATH | O_CLOEXEC);
    *ret_path = arena_printf(arena, "%s/gate/bundles/b-%s.pem", state, name);
    return authority_keep(dir, text_make(80, "b-%s.pem", name), 0644, text, err);
}

/* ---- Java ---- */

static void trust_u16(struct buf *out, size_t value) {
    buf_byte(out, (uint8_t)(value >> 8));
    buf_byte(out, (uint8_t)value);
}

static void trust_text(struct buf *out, const char *text) {
    trust_u16(out, strlen(text));
    buf_puts(out, text);
}

/* Every certificate of a bundle (PEM) as a key store of Java's own kind, "JKS", with its usual password: a header, the
 * certificates, and SHA-1 of the password in UTF-16, a constant and all that. */
static bool trust_java(const struct buf *bundle, struct buf *out) {
    static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0t", constant[] = "Mighty Aphrodite";
    autobuf entries = buf_max(2 * AUTHORITY_BUNDLE_BYTES), hashed = buf_max(2 * AUTHORITY_BUNDLE_BYTES + 64);
    BIO *from = xchecked(BIO_new_mem_buf(bundle->data, (int)bundle->len));
    uint32_t count = 0;
    for (X509 *one; (one = PEM_read_bio_X509(from, NULL, NULL, NULL)); X509_free(one)) {
        unsigned char *der = NULL;
        int len = i2d_X509(one, &der);
        if (len <= 0)
            continue;
        buf_put(&entries, "\0\0\0\2", 4); /* a trusted certificate */
        trust_text(&entries, text_make(32, "cubby-%u", count++));
        buf_put(&entries, "\0\0\0\0\0\0\0\0", 8); /* when it was added */
        trust_text(&entries, "X.509");
        trust_u16(&entries, (size_t)len >> 16);
        trust_u16(&entries, (size_t)len & 0xffff);
        buf_put(&entries, der, (size_t)len);
        OPENSSL_free(der);
    }
    BIO_free(from);
    buf_put(out, "\xfe\xed\xfe\xed\0\0\0\2", 8);
    trust_u16(out, count >> 16);
    trust_u16(out, count & 0xffff);
    buf_put(out, entries.data, entries.len);
    buf_put(&hashed, password, sizeof password - 1);
    buf_put(&hashed, constant, sizeof constant - 1);
    buf_put(&hashed, out->data, out->len);
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    bool fine =
        !hashed.failed && !entries.failed && EVP_Digest(hashed.data, hashed.len, digest, &size, EVP_sha1(), NULL) == 1;
    buf_put(out, digest, size);
    return fine && count && !out->failed;
}

/* The store beside a bundle, made once. False: there is none. */
static bool trust_java_store(const char *path, const struct buf *bundle) {
    autobuf store = buf_max(2 * AUTHORITY_BUNDLE_BYTES);
    if (access(path, F_OK) == 0)
        return true;
    const char *directory = text_make(LIMIT_PATH_BYTES, "%.*s", (int)(strrchr(path, '/') - path), path);
    autofd dir = open(directory, O_DIRECTORY | O_PATH | O_CLOEXEC);
    return dir >= 0 && trust_java(bundle, &store) &&
           authority_keep(dir, strrchr(path, '/') + 1, 0644, &store, ERR_IGNORED) == 0;
}

/* Where Java looks in this template: the system's store, and those of installations that have one of their own. */
static size_t trust_java_places(int root, struct arena *arena, const char *places[TRUST_JAVA]) {
    static const char *const stores[] = {"lib/security/cacerts", "jre/lib/security/cacerts"};
    static const char *const fixed[] = {"etc/ssl/certs/java/cacerts", "opt/java/openjdk/lib/security/cacerts"};
    size_t count = 0;
    struct stat status;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fstatat(root, fixed[i], &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
            places[count++] = fixed[i];
    autofd jvm = path_open(root, "usr/lib/jvm", O_RDONLY | O_DIRECTORY, 0);
    autodir *dir = jvm < 0 ? NULL : fd_opendir(jvm, ".", 0);
    for (struct dirent *entry; dir && count < TRUST_JAVA && (entry = fd_readdir(dir));)
        for (size_t i = 0; i < 2 && count < TRUST_JAVA; i++) {
            const char *path = arena_printf(arena, "usr/lib/jvm/%s/%s", entry->d_name, stores[i]);
            bool real = entry->d_name[0] != '.' &&
                        fstatat(root, arena_printf(arena, "usr/lib/jvm/%s", entry->d_name), &status,
                                AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISDIR(status.st_mode);
            if (real && fstatat(root, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
                places[count++] = path;
        }
    return count;
}

/* ---- browsers ---- */

/* Their policy files, where the browser is there. Chromium has the certificate in it, Firefox the path of it. */
static int trust_browsers(const char *state, int root, const struct buf *own, struct arena *arena, struct mount *mounts,
                          size_t *count, struct err *err) {
    static const struct {
        const char *program, *policy;
        bool firefox;
    } browsers[] = {{"usr/bin/chromium", "/etc/chromium/policies/managed/cubby.json", false},
                    {"opt/google/chrome/chrome", "/etc/opt/chrome/policies/managed/cubby.json", false},
                    {"usr/bin/firefox", "/etc/firefox/policies/policies.json", true},
                    {"usr/bin/firefox-esr", "/etc/firefox/policies/policies.json", true}};
    bool firefox = false;
    for (size_t i = 0; i < sizeof browsers / sizeof *browsers; i++) {
        autobuf text = buf_max(16384);
        struct stat status;
        const char *path, *begin = strchr((const char *)own->data, '\n'), *end = strstr(begin ? begin : "", "-----END");
        if (fstatat(root, browsers[i].program, &status, 0) < 0 || !end || (browsers[i].firefox && firefox) ||
            (browsers[i].firefox && fstatat(root, browsers[i].policy + 1, &status, 0) == 0))
            continue; /* a policy of the template's own stays */
        firefox |= browsers[i].firefox;
        if (browsers[i].firefox) {
            buf_puts(&text, "{\"policies\":{\"Certificates\":{\"Install\":[\"" AUTHORITY_CERTIFICATE "\"]}}}\n");
        } else {
            buf_puts(&text, "{\"CACertificates\":[\"");
            for (const char *c = begin; c < end; c++)
                if (*c != '\n')
                    buf_byte(&text, (uint8_t)*c);
            buf_puts(&text, "\"]}\n");
        }
        TRY(trust_bundle(state, &text, arena, &path, err));
        mounts[(*count)++] = (struct mount){path, browsers[i].policy, .read_only = true};
    }
    return 0;
}

int authority_mounts(const char *state, const char *template_dir, struct arena *arena, struct mount *mounts,
                     size_t *ret_count, struct err *err) {
    autobuf own = buf_max(16384);
    size_t count = 0;
    TRY(authority_text(state, &own, err));
    autofd root = open(template_dir ? template_dir : "/", O_DIRECTORY | O_PATH | O_CLOEXEC);
    const char *merged = NULL, *java[TRUST_JAVA];
    for (size_t i = 0; root >= 0 && i < sizeof trust_bundles / sizeof *trust_bundles; i++) {
        autobuf text = buf_max(AUTHORITY_BUNDLE_BYTES + 65536);
        const char *path;
        if (!trust_read(root, trust_bundles[i], &text))
            continue;
        buf_byte(&text, '\n');
        buf_put(&text, own.data, own.len);
        TRY(trust_bundle(state, &text, arena, &path, err));
        size_t stores = !merged && template_dir ? trust_java_places(root, arena, java) : 0;
        const char *store = arena_printf(arena, "%.*s.jks", (int)strlen(path) - 4, path);
        for (size_t k = 0; k < stores && trust_java_store(store, &text); k++)
            mounts[count++] = (struct mount){store, arena_printf(arena, "/%s", java[k]), .read_only = true};
        merged = merged ? merged : path;
        if (template_dir)
            mounts[count++] = (struct mount){path, arena_printf(arena, "/%s", trust_bundles[i]), .read_only = true};
    }
    if (!merged)
        TRY(trust_bundle(state, &own, arena, &merged, err));
    buf_cstr(&own);
    if (template_dir && root >= 0)
        TRY(trust_browsers(state, root, &own, arena, mounts, &count, err));
    mounts[count++] = (struct mount){merged, AUTHORITY_BUNDLE, .read_only = true};
    mounts[count++] =
        (struct mount){arena_printf(arena, "%s/gate/ca.pem", state), AUTHORITY_CERTIFICATE, .read_only = true};
    *ret_count = count;
    return 0;
}
