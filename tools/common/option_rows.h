/* option_rows.h - macros for tools/zt-NAME/options.def, which defines each option of a tool once.
 *
 *     OPTION(I64, window, 'c', "ctx", IN(IMATRIX), "N", "tokens of a window", .min = 1, .max = 1 << 24)
 *     DEFAULT(window, 512)
 *
 * A row has the kind (zt_opt_kind, which determines the C type), the field of the tool's struct, letter (0: none), name
 * (NULL: none), the modes it applies to (0: all), the name of the argument, the text of --help, and other members of zt_opt by
 * name. Parsing, --help, the completion script and the checks of ranges and modes use the row; `scripts/man-option` writes
 * the entry of the man page from it, and tests compare the page with it. Without DEFAULT the field is 0 or NULL.
 *
 * For an option whose words have constants in C, one list before the row defines both:
 *
 *     #define QUANT_SCALES(WORD) WORD(QUANT_SCALE_ROW, "row") WORD(QUANT_SCALE_TENSOR, "tensor")
 *     WORDS(QUANT_SCALES)
 *     OPTION(WORD, scale, 0, "scale", CHOOSES, ZT_WORDS(QUANT_SCALES), "a scale for each row, or one")
 *
 *     WORDS(list)      defines an enum; the field is the index of the word, which is the constant
 *     LIB_WORDS(list)  the constants are from the library; a different order is a compile-time error
 *     OPTION_AT(...)   a row for a field that the struct already has ("sampler.temp")
 *
 * options.def is included wherever a struct, a table or an initializer needs its rows, after the required macros have been
 * defined by those of this file. It includes this file first, which defines all other macros as empty, and undefines all at
 * its end. */
#ifndef ZT_OPTION_ROWS_H
#define ZT_OPTION_ROWS_H

#include "tools/common/cli.h"

/* The field of a row: #define OPTION ZT_OPTION_FIELD */
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

/* The zt_opt of a row, where `options` is the struct:
 * #define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, options.field, __VA_ARGS__) */
#define ZT_OPTION_ROW(kind_, field_, letter_, name_, modes_, arg_, ...)                                                          \
    {.kind = kind_, .value = &field_, .letter = letter_, .name = name_, .modes = modes_, .arg = arg_, .help = __VA_ARGS__},

/* The initializer of a field: #define DEFAULT ZT_OPTION_DEFAULT */
#define ZT_OPTION_DEFAULT(field, ...) .field = __VA_ARGS__,

/* A list of words as a string: "row|tensor". */
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
