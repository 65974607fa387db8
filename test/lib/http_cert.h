/* For tests that speak TLS: a certificate that is its own authority, with its key, in two files. */
#ifndef CUBBY_TEST_HTTP_CERT_H
#define CUBBY_TEST_HTTP_CERT_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>

/* names: "DNS:localhost,DNS:daemon.test". Valid until to_s seconds from now, which may be over. */
static inline void cert_make(const char *cert_path, const char *key_path, const char *names, long to_s) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
    X509_gmtime_adj(X509_getm_notAfter(cert), to_s);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"localhost", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(cert, key, EVP_sha256());
    FILE *file = fopen(cert_path, "w");
    PEM_write_X509(file, cert);
    fclose(file);
    mode_t before = umask(077); /* others may not read it, or it is refused */
    file = fopen(key_path, "w");
    umask(before);
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
}

#endif
