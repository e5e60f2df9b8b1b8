/* option_rows.h - the rows of tools/zt-NAME/options.def: a tool's options, each written once.
 *
 *     OPTION(I64, window, 'c', "ctx", IN(IMATRIX), "N", "tokens of a window", .min = 1, .max = 1 << 24)
 *     DEFAULT(window, 512)
 *
 * A row has the kind (zt_opt_kind, which is the C type), the field of the tool's struct, letter (0: none), name (NULL: none),
 * the modes that it applies to (0: all), the argument's name, the line of --help, and by their names other members of zt_opt.
 * --help, the completion script, parsing and the checks of ranges and modes follow from it, `scripts/man-option` writes the
 * entry of the man page, and tests hold the page to it. Without DEFAULT the field begins as 0 or NULL.
 *
 * Where C names the words of an option, one list has both, and stands before the row:
 *
 *     #define QUANT_SCALES(WORD) WORD(QUANT_SCALE_ROW, "row") WORD(QUANT_SCALE_TENSOR, "tensor")
 *     WORDS(QUANT_SCALES)
 *     OPTION(WORD, scale, 0, "scale", CHOOSES, ZT_WORDS(QUANT_SCALES), "a scale for each row, or one")
 *
 *     WORDS(list)      makes an enum of them; the field is the index of the word, so it is that constant
 *     LIB_WORDS(list)  the constants are the library's: it does not compile where their order differs
 *     OPTION_AT(...)   a row whose value lies in a field that the struct has besides ("sampler.temp")
 *
 * options.def is included where a struct, a table or an initializer needs its rows, with the macros that matter there defined
 * by those of here. It includes this file first, which makes all others nothing, and undefines all at its end. */
#ifndef ZT_OPTION_ROWS_H
#define ZT_OPTION_ROWS_H

#include "tools/common/cli.h"

/* A field for a row: #define OPTION ZT_OPTION_FIELD */
#define ZT_OPTION_FIELD(kind, field, ...) ZT_OPTION_TYPE_##kind field;
#define ZT_OPTION_TYPE_FLAG               bool
#define ZT_OPTION_TYPE_OFF                bool
#define ZT_OPTION_TYPE_STR                const char *
#define ZT_OPTION_TYPE_OPTIONAL           const char *
#define ZT_OPTION_TYPE_LIST               zt_opt_list
#define ZT_OPTION_TYPE_I64                int64_t
#define ZT_OPTION_TYPE_U64                uint64_t
#define ZT_OPTION_TYPE_F64                double
#define ZT_OPTION_TYPE_SIZE               size_t
#define ZT_OPTION_TYPE_WORD               int
#define ZT_OPTION_TYPE_COUNT              int

/* A zt_opt for a row, where `options` is the struct:
 * #define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, options.field, __VA_ARGS__) */
#define ZT_OPTION_ROW(kind_, field_, letter_, name_, modes_, arg_, ...)                                                          \
    {.kind = kind_, .value = &field_, .letter = letter_, .name = name_, .modes = modes_, .arg = arg_, .help = __VA_ARGS__},

/* An initializer's part: #define DEFAULT ZT_OPTION_DEFAULT */
#define ZT_OPTION_DEFAULT(field, ...) .field = __VA_ARGS__,

/* "row|tensor" of a list of words. */
#define ZT_WORDS(list)               (&(list(ZT_WORD_TEXT))[1])
#define ZT_WORD_TEXT(number, word)   "|" word
#define ZT_WORD_NUMBER(number, word) number,
#define ZT_WORD_ONLY(number, word)   word,

/* #define WORDS ZT_OPTION_WORDS, #define LIB_WORDS ZT_OPTION_LIB_WORDS */
#define ZT_OPTION_WORDS(list) enum { list(ZT_WORD_NUMBER) };
#define ZT_OPTION_LIB_WORDS(list)                                                                                                \
    enum { list(ZT_WORD_INDEX) };                                                                                                \
    list(ZT_WORD_CHECK)
#define ZT_WORD_INDEX(number, word) INDEX_OF_##number,
#define ZT_WORD_CHECK(number, word) _Static_assert((int)INDEX_OF_##number == (int)number, "words out of order: " word);

#endif

#ifndef OPTION
#define OPTION(...)
#endif
#ifndef OPTION_AT
#define OPTION_AT(...)
#endif
#ifndef DEFAULT
#define DEFAULT(...)
#endif
#ifndef WORDS
#define WORDS(list)
#endif
#ifndef LIB_WORDS
#define LIB_WORDS(list)
#endif
