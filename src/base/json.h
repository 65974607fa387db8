/* A writer of JSON straight into a buffer: commas and escapes are its business, nesting is the caller's.
 *
 *   json_open(&j, '{'); json_key(&j, "id"); json_str(&j, id); json_close(&j, '}');
 *
 * Strings that are not UTF-8 never reach json_str: use json_bytes, which chooses base64 and says so. */
#ifndef CUBBY_BASE_JSON_H
#define CUBBY_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct json {
    struct buf *out;
    bool comma;
};

void json_init(struct json *json, struct buf *out);
struct json json_begin(struct buf *out);          /* with an object open */
struct json json_list(struct buf *out);           /* with a list open */
void json_open(struct json *json, char bracket);  /* '{' or '[' */
void json_close(struct json *json, char bracket); /* '}' or ']' */
void json_key(struct json *json, const char *key);
void json_keyn(struct json *json, const char *key, size_t len);
void json_str(struct json *json, const char *text); /* UTF-8; bytes that are not become U+FFFD. NULL writes null */
void json_strn(struct json *json, const void *text, size_t len);
void json_int(struct json *json, int64_t value);
void json_uint(struct json *json, uint64_t value);
void json_double(struct json *json, double value); /* at most 3 decimals */
void json_bool(struct json *json, bool value);
void json_nil(struct json *json);
void json_raw(struct json *json, const char *text,
              size_t len);                           /* one value, or members of one, that are JSON already */
void json_time(struct json *json, uint64_t wall_ms); /* RFC 3339 string; 0 writes null */
/* A key and its value in one call. */
#define json_put_str(json, key, text) (json_key(json, key), json_str(json, text))
#define json_put_some(json, key, text) ((text) ? json_put_str(json, key, text) : (void)0) /* none: nothing */
#define json_put_strn(json, key, text, len) (json_key(json, key), json_strn(json, text, len))
#define json_put_int(json, key, value) (json_key(json, key), json_int(json, value))
#define json_put_uint(json, key, value) (json_key(json, key), json_uint(json, value))
#define json_put_double(json, key, value) (json_key(json, key), json_double(json, value))
#define json_put_bool(json, key, value) (json_key(json, key), json_bool(json, value))
#define json_put_nil(json, key) (json_key(json, key), json_nil(json))
#define json_put_raw(json, key, text, len) (json_key(json, key), json_raw(json, text, len))
#define json_put_time(json, key, wall_ms) (json_key(json, key), json_time(json, wall_ms))
#define json_put_bytes(json, key, data, len, utf8) (json_key(json, key), json_bytes(json, data, len, utf8))
#define json_put_open(json, key, bracket) (json_key(json, key), json_open(json, bracket))
void json_put_texts(struct json *json, const char *key, const char *const *list); /* ends with NULL; may be NULL */
/* One string value: as it is when utf8, base64 otherwise. The caller decides for all fields that share one
 * "encoding" (text_utf8) and writes that key itself. */
void json_bytes(struct json *json, const void *data, size_t len, bool utf8);

/* JSON from outside, before a parser is given it: whether it is nested deeper, or may hold more values, than is
 * allowed. Outside of strings each comma or bracket is at most one more value; a parser's memory is a multiple of
 * that. */
enum json_size { JSON_FITS, JSON_DEEP, JSON_MANY };
enum json_size json_measure(const char *data, size_t len, unsigned depth_max, unsigned values_max);

/* The error object of the API, whole: {"error":{"code":…,"message":…}} */
void json_failure(struct json *json, const char *code, const char *message);

#endif
