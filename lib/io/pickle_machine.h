/* pickle_machine.h - private to lib/io/pickle*.c: the machine's parts. */
#ifndef ZT_PICKLE_MACHINE_H
#define ZT_PICKLE_MACHINE_H

#include "lib/io/pickle.h"

enum { PK_LINE = 512 }; /* most bytes of an opcode's line of text: a name, a number */

uint64_t zt_pk_here(const pickle_reader *pickle);      /* the byte that is read next */
bool zt_pk_spend(pickle_reader *pickle, size_t bytes); /* false: over the budget, and the context says so */
zt_status zt_pk_why(const pickle_reader *pickle);      /* why a NULL or false came back */

zt_status zt_pk_read_le(pickle_reader *pickle, int width, uint64_t *value);
/* A line of text, without its end; closed by a zero. */
zt_status zt_pk_read_line(pickle_reader *pickle, char line[PK_LINE], size_t *length);
/* `length` bytes that are kept, closed by a zero. */
zt_status zt_pk_read_text(pickle_reader *pickle, uint64_t length, pk_value *out);

zt_status zt_pk_push(pickle_reader *pickle, pk_value value);
zt_status zt_pk_pop(pickle_reader *pickle, pk_value *value); /* the topmost value, which must be no mark */
/* Where the values above the last mark begin; the mark is the one before. */
zt_status zt_pk_above_mark(pickle_reader *pickle, size_t *first);

typedef struct pk_opcode {
    zt_status (*run)(pickle_reader *pickle, int arg); /* NULL: there is no such */
    int arg;                                          /* bytes of what follows, or what is made */
} pk_opcode;
extern const pk_opcode zt_pk_opcodes[256];

#endif
