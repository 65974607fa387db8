/* `cubby tls`: a local authority and a certificate from it, for tests and laptops. The openssl program makes both.
 * Invariants: other users can never read a key, not even for a moment; the authority can only sign names below its
 * domain, so a stolen one opens nothing else. */
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/base.h"
#include "cli/cli.h"

#define TLS_DOMAIN "sbx.localhost"
#define TLS_CURVE "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"

extern char **environ;

struct tls_values {
    const char *domain;
    uint64_t days;
};

const struct row tls_options[] = {
    OPTION("domain", 0, TEXT, struct tls_values, domain, "NAME", "the domain of the hosts (default: " TLS_DOMAIN ")"),
    OPTION("days", 0, INT, struct tls_values, days, "N", "how long the certificate is valid (default: 397)"),
    {.name = NULL},
};

struct tls_files { /* paths */
    const char *ca, *ca_key, *cert, *key;
};

/* Clients do not accept a wildcard directly below a top-level name. */
static bool tls_domain_ok(const char *domain) {
    size_t len = strlen(domain);
    return len > 0 && len <= 200 && strspn(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len &&
           domain[0] != '.' && domain[0] != '-' && domain[len - 1] != '.' && strchr(domain, '.') &&
           !strstr(domain, "..");
}

/* Its output is shown only if it fails, since it also prints on success. */
static int tls_run(const char *const *argv, struct err *err) {
    char said[300] = "";
    pid_t pid;
    int status = 0;
    autofd heard = memfd_create("openssl", MFD_CLOEXEC);
    posix_spawn_file_actions_t actions;
    if (heard < 0)
        return err_errno(err, errno, "memfd");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, heard, STDERR_FILENO);
    int number = posix_spawnp(&pid, "openssl", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (number == ENOENT)
        return err_set(err, ERR_UNSUPPORTED, "the program openssl is not installed: install the package openssl");
    if (number)
        return err_errno(err, number, "cannot start openssl");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, errno, "openssl");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    ssize_t n = pread(heard, said, sizeof said - 1, 0);
    return err_set(err, ERR_IO, "openssl failed: %.*s", n > 0 ? (int)strcspn(said, "\n") : 0, said);
}

/* Renames a key and its certificate, which anyone may read. Both had temporary names: a failure changes nothing. */
static int tls_rename(const char *from[2], const char *to[2], struct err *err) {
    if (chmod(from[1], 0644) < 0)
        return err_errno(err, errno, "'%s'", from[1]);
    for (int i = 0; i < 2; i++)
        if (rename(from[i], to[i]) < 0)
            return err_errno(err, errno, "cannot rename to '%s'", to[i]);
    return 0;
}

static int tls_authority(struct cli *cli, const struct tls_files *files, const char *domain, struct err *err) {
    struct stat status;
    struct arena *arena = &cli->arena;
    if (stat(files->ca, &status) == 0 && stat(files->ca_key, &status) == 0)
        return 0; /* clients already trust it */
    const char *fresh[] = {arena_printf(arena, "%s.new", files->ca_key), arena_printf(arena, "%s.new", files->ca)};
    const char *final[] = {files->ca_key, files->ca};
    const char *names = arena_printf(arena,
                                     "nameConstraints=critical,permitted;DNS:%s,permitted;DNS:localhost,"
                                     "permitted;IP:127.0.0.1/255.255.255.255,"
                                     "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                     domain);
    const char *subject = arena_printf(arena, "/CN=cubby local authority for %.40s", domain);
    const char *argv[] = {"openssl", "req",
                          "-x509",   TLS_CURVE,
                          "-days",   "3650",
                          "-subj",   subject,
                          "-addext", "basicConstraints=critical,CA:TRUE,pathlen:0",
                          "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                          "-addext", names,
                          "-keyout", fresh[0],
                          "-out",    fresh[1],
                          NULL};
    return tls_run(argv, err) ?: tls_rename(fresh, final, err);
}

static int tls_certificate(struct cli *cli, const struct tls_files *files, const struct tls_values *values,
                           struct err *err) {
    struct arena *arena = &cli->arena;
    const char *fresh[] = {arena_printf(arena, "%s.new", files->key), arena_printf(arena, "%s.new", files->cert)};
    const char *final[] = {files->key, files->cert};
    const char *subject = arena_printf(arena, "/CN=%.60s", values->domain);
    const char *names = arena_printf(arena, "subjectAltName=DNS:%s,DNS:*.%s,DNS:localhost,IP:127.0.0.1,IP:::1",
                                     values->domain, values->domain);
    const char *days = arena_printf(arena, "%llu", (unsigned long long)values->days);
    const char *argv[] = {"openssl", "req",
                          "-x509",   TLS_CURVE,
                          "-days",   days,
                          "-CA",     files->ca,
                          "-CAkey",  files->ca_key,
                          "-subj",   subject,
                          "-addext", names,
                          "-addext", "basicConstraints=critical,CA:FALSE",
                          "-addext", "extendedKeyUsage=serverAuth",
                          "-keyout", fresh[0],
                          "-out",    fresh[1],
                          NULL};
    return tls_run(argv, err) ?: tls_rename(fresh, final, err);
}

static void tls_print(const struct tls_files *files, const char *domain) {
    printf("# in cubby.yaml:\n"
           "tls_cert: %s\n"
           "tls_key: %s\n"
           "# for clients of https://localhost:PORT and https://HOST.%s:PORT; those names must lead to this machine:\n"
           "export NODE_EXTRA_CA_CERTS=%s SSL_CERT_FILE=%s CUBBY_CA=%s\n",
           files->cert, files->key, domain, files->ca, files->ca, files->ca);
}

int command_tls(struct cli *cli, int argc, char **argv) {
    struct tls_values values = {.domain = TLS_DOMAIN, .days = 397};
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 1)
        option_fail(cli, "missing DIR, the directory for the files");
    if (!tls_domain_ok(values.domain))
        option_fail(cli,
                    "'%s' is not a domain for certificates: lower-case letters, digits and '-', with a dot inside "
                    "(clients accept no wildcard directly below a top-level name)",
                    values.domain);
    if (values.days < 1 || values.days > 3650)
        option_fail(cli, "--days must be between 1 and 3650");
    if (mkdir(argv[0], 0755) < 0 && errno != EEXIST) {
        err_errno(&err, errno, "cannot create the directory '%s'", argv[0]);
        return cli_fail(&err);
    }
    umask(077);
    char *dir = realpath(argv[0], NULL);
    if (!dir) {
        err_errno(&err, errno, "cannot open the directory '%s'", argv[0]);
        return cli_fail(&err);
    }
    struct arena *arena = &cli->arena;
    const struct tls_files files = {
        arena_printf(arena, "%s/ca.pem", dir),
        arena_printf(arena, "%s/ca.key", dir),
        arena_printf(arena, "%s/cert.pem", dir),
        arena_printf(arena, "%s/key.pem", dir),
    };
    free(dir);
    if (tls_authority(cli, &files, values.domain, &err) < 0 || tls_certificate(cli, &files, &values, &err) < 0)
        return cli_fail(&err);
    tls_print(&files, values.domain);
    return 0;
}
