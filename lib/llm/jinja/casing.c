/* casing.c - upper, lower and title case as Python's str has them: characters that become several, and the sigma at
 * a word's end. */
#include "lib/llm/jinja/internal.h"

#include <string.h>
#include <utf8proc.h>

typedef struct range {
    uint32_t first, last;
} range;

// clang-format off
/* Unicode's Other_Lowercase and Other_Uppercase: of other categories than Ll and Lu. */
static const range other_lower[] = {
    {0xaa, 0xaa}, {0xba, 0xba}, {0x2b0, 0x2b8}, {0x2c0, 0x2c1}, {0x2e0, 0x2e4}, {0x345, 0x345}, {0x37a, 0x37a},
    {0x1d2c, 0x1d6a}, {0x1d78, 0x1d78}, {0x1d9b, 0x1dbf}, {0x2071, 0x2071}, {0x207f, 0x207f}, {0x2090, 0x209c},
    {0x2170, 0x217f}, {0x24d0, 0x24e9}, {0x2c7c, 0x2c7d}, {0xa69c, 0xa69d}, {0xa770, 0xa770}, {0xa7f8, 0xa7f9},
    {0xab5c, 0xab5f}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
};
static const range other_upper[] = {
    {0x2160, 0x216f}, {0x24b6, 0x24cf}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
};

/* Unicode's SpecialCasing.txt without its conditions: the characters whose upper or title case is several. */
static const struct special {
    uint32_t codepoint;
    const char *upper, *title; /* NULL: that of upper case */
} specials[] = {
    {0x00df, "SS", "Ss"},
    {0x0149, "\xca\xbcN", NULL},
    {0x01f0, "J\xcc\x8c", NULL},
    {0x0390, "\xce\x99\xcc\x88\xcc\x81", NULL},
    {0x03b0, "\xce\xa5\xcc\x88\xcc\x81", NULL},
    {0x0587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"},
    {0x1e96, "H\xcc\xb1", NULL},
    {0x1e97, "T\xcc\x88", NULL},
    {0x1e98, "W\xcc\x8a", NULL},
    {0x1e99, "Y\xcc\x8a", NULL},
    {0x1e9a, "A\xca\xbe", NULL},
    {0x1f50, "\xce\xa5\xcc\x93", NULL},
    {0x1f52, "\xce\xa5\xcc\x93\xcc\x80", NULL},
    {0x1f54, "\xce\xa5\xcc\x93\xcc\x81", NULL},
    {0x1f56, "\xce\xa5\xcc\x93\xcd\x82", NULL},
    {0x1f80, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"},
    {0x1f81, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1f82, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"},
    {0x1f83, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1f84, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"},
    {0x1f85, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1f86, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"},
    {0x1f87, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1f88, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"},
    {0x1f89, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1f8a, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"},
    {0x1f8b, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1f8c, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"},
    {0x1f8d, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1f8e, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"},
    {0x1f8f, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1f90, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"},
    {0x1f91, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1f92, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"},
    {0x1f93, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1f94, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"},
    {0x1f95, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1f96, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"},
    {0x1f97, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1f98, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"},
    {0x1f99, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1f9a, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"},
    {0x1f9b, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1f9c, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"},
    {0x1f9d, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1f9e, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"},
    {0x1f9f, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1fa0, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"},
    {0x1fa1, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1fa2, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"},
    {0x1fa3, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1fa4, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"},
    {0x1fa5, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1fa6, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"},
    {0x1fa7, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1fa8, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"},
    {0x1fa9, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1faa, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"},
    {0x1fab, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1fac, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"},
    {0x1fad, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1fae, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"},
    {0x1faf, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1fb2, "\xe1\xbe\xba\xce\x99", "\xe1\xbe\xba\xcd\x85"},
    {0x1fb3, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1fb4, "\xce\x86\xce\x99", "\xce\x86\xcd\x85"},
    {0x1fb6, "\xce\x91\xcd\x82", NULL},
    {0x1fb7, "\xce\x91\xcd\x82\xce\x99", "\xce\x91\xcd\x82\xcd\x85"},
    {0x1fbc, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1fc2, "\xe1\xbf\x8a\xce\x99", "\xe1\xbf\x8a\xcd\x85"},
    {0x1fc3, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1fc4, "\xce\x89\xce\x99", "\xce\x89\xcd\x85"},
    {0x1fc6, "\xce\x97\xcd\x82", NULL},
    {0x1fc7, "\xce\x97\xcd\x82\xce\x99", "\xce\x97\xcd\x82\xcd\x85"},
    {0x1fcc, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1fd2, "\xce\x99\xcc\x88\xcc\x80", NULL},
    {0x1fd3, "\xce\x99\xcc\x88\xcc\x81", NULL},
    {0x1fd6, "\xce\x99\xcd\x82", NULL},
    {0x1fd7, "\xce\x99\xcc\x88\xcd\x82", NULL},
    {0x1fe2, "\xce\xa5\xcc\x88\xcc\x80", NULL},
    {0x1fe3, "\xce\xa5\xcc\x88\xcc\x81", NULL},
    {0x1fe4, "\xce\xa1\xcc\x93", NULL},
    {0x1fe6, "\xce\xa5\xcd\x82", NULL},
    {0x1fe7, "\xce\xa5\xcc\x88\xcd\x82", NULL},
    {0x1ff2, "\xe1\xbf\xba\xce\x99", "\xe1\xbf\xba\xcd\x85"},
    {0x1ff3, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0x1ff4, "\xce\x8f\xce\x99", "\xce\x8f\xcd\x85"},
    {0x1ff6, "\xce\xa9\xcd\x82", NULL},
    {0x1ff7, "\xce\xa9\xcd\x82\xce\x99", "\xce\xa9\xcd\x82\xcd\x85"},
    {0x1ffc, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"},
    {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"},
    {0xfb13, "\xd5\x84\xd5\x86", "\xd5\x84\xd5\xb6"},
    {0xfb14, "\xd5\x84\xd4\xb5", "\xd5\x84\xd5\xa5"},
    {0xfb15, "\xd5\x84\xd4\xbb", "\xd5\x84\xd5\xab"},
    {0xfb16, "\xd5\x8e\xd5\x86", "\xd5\x8e\xd5\xb6"},
    {0xfb17, "\xd5\x84\xd4\xbd", "\xd5\x84\xd5\xad"},
};
// clang-format on

static bool in_ranges(const range *ranges, size_t count, uint32_t codepoint)
{
    for (size_t i = 0; i < count; i++)
        if (codepoint >= ranges[i].first && codepoint <= ranges[i].last) return true;
    return false;
}

static utf8proc_category_t category_of(uint32_t codepoint) { return utf8proc_category((utf8proc_int32_t)codepoint); }

bool zt_j_is_lower(uint32_t codepoint)
{
    return category_of(codepoint) == UTF8PROC_CATEGORY_LL ||
           in_ranges(other_lower, sizeof other_lower / sizeof *other_lower, codepoint);
}

bool zt_j_is_upper(uint32_t codepoint)
{
    return category_of(codepoint) == UTF8PROC_CATEGORY_LU ||
           in_ranges(other_upper, sizeof other_upper / sizeof *other_upper, codepoint);
}

bool zt_j_is_cased(uint32_t codepoint)
{
    return category_of(codepoint) == UTF8PROC_CATEGORY_LT || zt_j_is_lower(codepoint) || zt_j_is_upper(codepoint);
}

/* Unicode's Case_Ignorable. */
static bool is_ignored(uint32_t codepoint)
{
    static const uint32_t marks[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                     0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    utf8proc_category_t category = category_of(codepoint);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (codepoint == marks[i]) return true;
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK;
}

/* Is the nearest character that is not ignored a cased one? Looks back from `offset`, or ahead. */
static bool touches_cased(jmachine *machine, jtext text, size_t offset, bool back)
{
    const char *data = zt_j_data(text);
    uint32_t codepoint = '.';
    while (is_ignored(codepoint)) {
        size_t length = 1;
        if (back ? offset == 0 : offset == text.size) return false;
        zt_j_step(machine, 1);
        if (back)
            while (length < offset && ((unsigned char)data[offset - length] & 0xc0) == 0x80) length++;
        else
            length = zt_j_char_bytes(data + offset, text.size - offset);
        codepoint = zt_j_code(data + (back ? offset - length : offset), length);
        offset = back ? offset - length : offset + length;
    }
    return zt_j_is_cased(codepoint);
}

/* What the character becomes if that is several: NULL if it is one. */
static const char *special_case(uint32_t codepoint, jcase wanted)
{
    if (wanted == J_LOWER) return codepoint == 0x130 ? "i\xcc\x87" : NULL;
    if (codepoint < specials[0].codepoint) return NULL;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (specials[i].codepoint == codepoint)
            return wanted == J_TITLE && specials[i].title ? specials[i].title : specials[i].upper;
    return NULL;
}

static void put_folded(jmachine *machine, jout *out, uint32_t codepoint, bool input)
{
    utf8proc_int32_t folded[8];
    int last = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)codepoint, folded, 8, UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t i = 0; i < count && i < 8; i++) zt_j_put_char(machine, out, (uint32_t)folded[i], input);
}

void zt_j_put_case(jmachine *machine, jout *out, jtext text, size_t offset, size_t length, jcase wanted)
{
    bool input = zt_j_marks(text)[offset];
    uint32_t codepoint = zt_j_code(zt_j_data(text) + offset, length);
    const char *several = wanted == J_KEEP || wanted == J_FOLD ? NULL : special_case(codepoint, wanted);
    utf8proc_int32_t one = (utf8proc_int32_t)codepoint;
    if (several)
        zt_j_put(machine, out, several, strlen(several), input);
    else if (wanted == J_FOLD)
        put_folded(machine, out, codepoint, input);
    else if (wanted == J_LOWER && codepoint == 0x3a3 && touches_cased(machine, text, offset, true) &&
             !touches_cased(machine, text, offset + length, false))
        zt_j_put_char(machine, out, 0x3c2, input);
    else
        zt_j_put_char(machine, out,
                      (uint32_t)(wanted == J_KEEP    ? one
                                 : wanted == J_UPPER ? utf8proc_toupper(one)
                                 : wanted == J_TITLE ? utf8proc_totitle(one)
                                                     : utf8proc_tolower(one)),
                      input);
}

jtext zt_j_in_case(jmachine *machine, jtext text, jcase first, jcase rest)
{
    jout out = {NULL};
    for (size_t offset = 0, length; offset < text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(text) + offset, text.size - offset);
        zt_j_put_case(machine, &out, text, offset, length, offset == 0 ? first : rest);
    }
    return zt_j_done(machine, &out);
}
