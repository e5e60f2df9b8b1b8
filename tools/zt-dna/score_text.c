/* score_text.c - scores as text: what a command printed, and lines of score files. */
#include "tools/zt-dna/score.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_words[DNA_SCORE_KINDS] = {NULL, "failed", "timeout", "invalid"};

static void trim_text(const char **text, size_t *size)
{
    while (*size && isspace((unsigned char)**text)) ++*text, --*size;
    while (*size && isspace((unsigned char)(*text)[*size - 1])) --*size;
}

void dna_score_parse(const char *text, size_t size, dna_score *score)
{
    char number[64], shown[80];
    *score = (dna_score){.kind = DNA_SCORE_INVALID};
    trim_text(&text, &size);
    if (size == 0) {
        snprintf(score->reason, sizeof score->reason, "no output: must be a number");
        return;
    }
    if (size < sizeof number && !memchr(text, 0, size)) {
        memcpy(number, text, size);
        number[size] = 0;
        if (zt_parse_double(number, &score->fitness)) {
            if (isfinite(score->fitness))
                score->kind = DNA_SCORE_VALID;
            else
                snprintf(score->reason, sizeof score->reason, "%s: must be a finite number", number);
            return;
        }
    }
    snprintf(score->reason, sizeof score->reason, "'%s': must be one number",
             zt_escape(shown, sizeof shown, text, size < 60 ? size : 60));
}

zt_status dna_score_put(const dna_score *score, zt_str *out)
{
    if (score->kind != DNA_SCORE_VALID) return zt_str_printf(out, "%s: %s\n", kind_words[score->kind], score->reason);
    zt_str_put_double(out, score->fitness);
    return zt_str_putc(out, '\n');
}

void dna_score_read(const char *text, size_t size, dna_score *score)
{
    const char *whole = text;
    size_t whole_size = size;
    trim_text(&text, &size);
    for (int kind = DNA_SCORE_FAILED; kind < DNA_SCORE_KINDS; kind++) {
        size_t length = strlen(kind_words[kind]);
        if (size < length + 2 || memcmp(text, kind_words[kind], length) || memcmp(text + length, ": ", 2)) continue;
        *score = (dna_score){.kind = (dna_score_kind)kind};
        size_t rest = size - length - 2;
        for (size_t i = 0, k = 0; i < rest && k + 1 < sizeof score->reason; i++)
            score->reason[k++] = isprint((unsigned char)text[length + 2 + i]) ? text[length + 2 + i] : '?';
        return;
    }
    dna_score_parse(whole, whole_size, score);
}
