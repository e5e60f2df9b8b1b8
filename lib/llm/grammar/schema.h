/* schema.h - private to lib/llm/grammar: JSON Schema (draft 2020-12) as expressions.
 *
 *     schema.c           keywords, references, choices; one expression for each type
 *     schema_merge.c     allOf, and what stands beside $ref, anyOf and oneOf: one schema of two
 *     schema_string.c    strings, their lengths, patterns and formats; keys
 *     schema_number.c    integers and numbers in ranges
 *     schema_object.c    objects and arrays
 *     schema_value.c     const and enum; any JSON value
 *
 * What is written is narrower than what is valid, never wider: objects have no properties and arrays no items beyond those that
 * the schema names, unless it says what they are; numbers are short; white space is as in json_gap.
 */
#ifndef ZT_GRAMMAR_SCHEMA_H
#define ZT_GRAMMAR_SCHEMA_H

#include "lib/llm/grammar/internal.h"

enum { MOST_MERGES = 1 << 15, MOST_BRANCHES = 1 << 14 };

/* Bits of a set of types, in the order of type_names. */
typedef enum stype { S_NULL, S_BOOLEAN, S_INTEGER, S_NUMBER, S_STRING, S_ARRAY, S_OBJECT, S_TYPES } stype;
enum { S_ALL_TYPES = (1 << S_TYPES) - 1 - (1 << S_INTEGER) }; /* a number may be an integer */

/* Rules that all schemas share, made when they are first called. */
typedef enum sshared {
    S_VALUE,
    S_ANY_OBJECT,
    S_ANY_ARRAY,
    S_ANY_STRING,
    S_ANY_NUMBER,
    S_ANY_INTEGER,
    S_CHARACTER,
    S_GAP,
    S_SHARED
} sshared;

extern const gdialect zt_s_json; /* JSON itself */
typedef enum sword { S_WORD_NULL, S_WORD_FALSE, S_WORD_TRUE } sword;

typedef struct sreader {
    gbuilder *builder;
    const gdialect *dialect;
    const json_t *root;
    zt_str path;   /* of the schema that is read, as in a URI's fragment */
    json_t *made;  /* an array: schemas that were merged */
    zt_map *rules; /* of schemas that $ref names, by their addresses */
    int depth, merges;
    int shared[S_SHARED]; /* one more than the rule; 0: not made */
} sreader;

/* "NAME: #/path: MESSAGE". Returns NULL. */
void *zt_s_fail(const sreader *reader, const char *format, ...) ZT_PRINTF(2, 3);
/* `"KEY" is not supported: WHY`. */
void *zt_s_refuse(const sreader *reader, const char *key, const char *why);
gexpr *zt_s_shared(sreader *reader, sshared which);
gexpr *zt_s_schema(sreader *reader, const json_t *schema, const char *key, const char *name);

/* The set of types that a schema's `type` allows; -1: an error. */
int zt_s_types(const sreader *reader, const json_t *schema);
bool zt_s_is_annotation(const char *key);
bool zt_s_check_keywords(const sreader *reader, const json_t *schema); /* false: one is not supported */

/* schema_merge.c. A schema without $ref and allOf at its top, without annotations and `nullable`, and with const as enum;
 * `schema` may be any. NULL: an error. */
const json_t *zt_s_expand(sreader *reader, const json_t *schema);
const json_t *zt_s_merge(sreader *reader, const json_t *first, const json_t *second);
/* The schema that a $ref names. */
const json_t *zt_s_find(const sreader *reader, const char *reference);
/* No value is valid by both. false: not known. Both are any schemas. */
bool zt_s_disjoint(sreader *reader, const json_t *first, const json_t *second, int depth);
/* A reference to a schema that was made, for as long as the reader lives. NULL: no memory. */
const json_t *zt_s_keep(sreader *reader, json_t *made);

/* Of an expanded schema, the values of a type. */
gexpr *zt_s_string(sreader *reader, const json_t *schema);
gexpr *zt_s_number(sreader *reader, const json_t *schema, bool integer);
gexpr *zt_s_object(sreader *reader, const json_t *schema);
gexpr *zt_s_array(sreader *reader, const json_t *schema);

gexpr *zt_s_values(sreader *reader, const json_t *schema);        /* of enum */
json_t *zt_s_strings(sreader *reader, const json_t *schema);      /* the strings of enum that are valid; NULL: an error */
bool zt_s_same(const json_t *first, const json_t *second);        /* values: 1 and 1.0 are the same */
gexpr *zt_s_text(sreader *reader, const char *text, size_t size); /* a string's value in its quotes */
gexpr *zt_s_key(sreader *reader, const char *text, size_t size);  /* the name of a property */
/* A string's value without quotes, the mark that ends it, and what follows. The mark `never` is not in it; NULL: any may be. */
gexpr *zt_s_raw(sreader *reader, const json_t *schema, const char *mark, const char *never, gexpr *then);
/* Opens a reader of a schema; NULL: of any object. false: an error. Close it in any case. */
bool zt_s_open(sreader *reader, gbuilder *builder, const json_t *schema, const gdialect *dialect);
void zt_s_close(sreader *reader);
gexpr *zt_s_make_shared(sreader *reader, sshared which);
gexpr *zt_s_key_except(sreader *reader, zt_bytes *names, size_t count); /* a key that is none of these */
gexpr *zt_s_colon(sreader *reader);
gexpr *zt_s_word(sreader *reader, sword word);
/* A bound as a count from 0 on: fallback where it is absent, -2 after an error. */
int64_t zt_s_count(const sreader *reader, const json_t *schema, const char *key, int64_t fallback);

#endif
