/* token_groups.c - groups of characters that grammars often treat alike: letters, digits, a space.
 *
 * A state from which all characters of a group lead to one state needs no search for tokens of that group alone. The groups are those
 * of usual regular expressions: \w, hexadecimal digits, any character but a line's end, a JSON string.
 */
#include "lib/llm/grammar/internal.h"

/* Each character is in one group. */
static const struct {
    uint32_t first, last;
    int group;
} group_ranges[] = {
    {0x00, 0x1f, 13},     {' ', ' ', SPACE_GROUP}, {'!', '!', 12},         {'"', '"', 10},       {'#', ',', 12},
    {'-', '-', 7},        {'.', '.', 8},           {'/', '/', 12},         {'0', '9', 4},        {':', '@', 12},
    {'A', 'F', 2},        {'G', 'Z', 3},           {'[', '[', 12},         {'\\', '\\', 11},     {']', '^', 12},
    {'_', '_', 5},        {'`', '`', 12},          {'a', 'f', 0},          {'g', 'z', 1},        {'{', 0x7f, 12},
    {0x80, 0x9f, 9},      {0xa0, 0xa0, 9},         {0xa1, 0x167f, 14},     {0x1680, 0x1680, 9},  {0x1681, 0x1fff, 14},
    {0x2000, 0x200a, 9},  {0x200b, 0x2027, 14},    {0x2028, 0x2029, 9},    {0x202a, 0x202e, 14}, {0x202f, 0x202f, 9},
    {0x2030, 0x205e, 14}, {0x205f, 0x205f, 9},     {0x2060, 0x2fff, 14},   {0x3000, 0x3000, 9},  {0x3001, 0xd7ff, 14},
    {0xe000, 0xfefe, 14}, {0xfeff, 0xfeff, 9},     {0xff00, 0x10ffff, 14},
};
enum { RANGES = sizeof group_ranges / sizeof *group_ranges };

static int group_of(uint32_t code_point)
{
    int low = 0, high = RANGES - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (group_ranges[middle].first <= code_point)
            low = middle;
        else
            high = middle - 1;
    }
    return group_ranges[low].group;
}

ggroups zt_g_groups(const char *bytes, size_t size, int *characters)
{
    ggroups groups = 0;
    *characters = 0;
    for (size_t at = 0; at < size; ++*characters) {
        uint32_t code_point;
        int length = zt_utf8_decode(bytes + at, size - at, &code_point);
        groups |= (ggroups)(1u << (length ? group_of(code_point) : BROKEN_GROUP));
        at += length ? (size_t)length : 1;
    }
    return groups;
}

/* ---- the characters of groups as bytes ------------------------------------------------------- */

typedef struct sequence_list {
    gcharacter_groups *groups; /* NULL: they are counted only */
    uint32_t count;
    int group;
} sequence_list;

static bool put_sequence(void *user, const gbytes_sequence *sequence)
{
    sequence_list *list = user;
    if (list->groups) {
        list->groups->sequence[list->count] = *sequence;
        for (unsigned byte = sequence->first[0]; byte <= sequence->last[0]; byte++)
            zt_g_set_add(&list->groups->first_bytes[list->group], byte);
    }
    list->count++;
    return true;
}

static void list_sequences(sequence_list *list)
{
    list->count = 0;
    for (list->group = 0; list->group < GROUPS; list->group++) {
        if (list->groups) list->groups->sequences[list->group] = list->count;
        for (int i = 0; i < RANGES; i++) {
            grange range = {group_ranges[i].first, group_ranges[i].last};
            if (group_ranges[i].group == list->group) zt_g_chars_bytes(&(gchars){&range, 1, 1}, put_sequence, list);
        }
    }
    if (list->groups) list->groups->sequences[GROUPS] = list->count;
}

gcharacter_groups *zt_g_character_groups(zt_ctx *ctx)
{
    sequence_list list = {0};
    list_sequences(&list);
    list.groups = zt_calloc(ctx, 1, sizeof *list.groups + list.count * sizeof *list.groups->sequence);
    if (list.groups) list_sequences(&list);
    return list.groups;
}
