/* pickle.h - private to lib/io: read Python pickles, protocols 0 to 5, as data.
 *
 * The opcodes of a pickle are a program for a small machine with a stack and a memo, which may name
 * any function and call it. This machine calls nothing. It builds numbers, texts, tuples, lists and
 * dictionaries. Names are looked up in a list of those that PyTorch's own safe reader accepts
 * (lib/io/pickle_names.c), and what stands for a call of them makes a value or a tensor's
 * description (lib/io/pickle_torch.c). Any other name, and whatever is made by it, is an opaque
 * object: what it was given is kept, and the names are counted so that the reader of the file can
 * report them. Opcodes of the extension registry and of buffers outside the file are ZT_EDATA.
 *
 * Files are hostile: a pickle may spend `budget` bytes of memory in all. CPython's pickletools.py,
 * as facts.
 */
#ifndef ZT_PICKLE_H
#define ZT_PICKLE_H

#include "lib/io/gather.h"

struct pickle_reader;

typedef enum pk_kind {
    PK_NONE, /* None, and whatever holds no tensor: floats, devices */
    PK_BOOL,
    PK_INT,
    PK_LONG, /* an integer beyond 64 bits: its bytes, little endian */
    PK_TEXT,
    PK_TUPLE,
    PK_LIST, /* sets too */
    PK_DICT, /* keys and values in turn */
    PK_GLOBAL,
    PK_STORAGE,
    PK_TENSOR,
    PK_OBJECT,  /* of a class or a function that is not known, or torch.Tensor() */
    PK_FOREIGN, /* a tensor that zt does not hold; text says which kind */
    PK_MARK
} pk_kind;

typedef struct pk_value {
    uint32_t kind, count; /* `count`: bytes of a text, items of a tuple */
    union {
        int64_t i;
        const char *text; /* closed by a zero, which does not count; may hold others */
        struct pk_value *items;
        struct pk_list *list;
        const struct pk_global *global;
        const struct pk_storage *storage;
        const struct pk_tensor *tensor;
        struct pk_object *object;
    };
} pk_value;

typedef struct pk_list {
    pk_value *items;
    size_t count, capacity;
    bool set, ordered;    /* a set; an OrderedDict */
    struct pk_list *attr; /* an OrderedDict's attributes, names and values in turn; NULL: none */
} pk_list;

/* What stands for an unknown object. Its class or function is never looked up. */
typedef struct pk_object {
    const struct pk_global *type;
    pk_value arguments;             /* a tuple: what was handed to the class or function */
    pk_list state;                  /* each state that was set; dictionaries hold attributes */
    pk_list items, pairs;           /* what was appended to it; keys and values in turn */
    const struct pk_tensor *tensor; /* what torch.Tensor() became by its state; NULL: nothing */
    bool named, lost;               /* a walk was in it: its tensors have names, or are counted as lost */
} pk_object;

/* A dtype of PyTorch's. */
typedef struct pk_dtype {
    const char *name, *storage; /* "float32", "FloatStorage"; NULL: has no storage class */
    size_t item, swap;          /* bytes of an element, and of what an order of bytes is about */
    zt_dtype dtype;             /* ZT_DTYPE_COUNT: zt has none */
    bool quantized;             /* a tensor of it needs a scale */
} pk_dtype;
extern const pk_dtype zt_pk_dtypes[];
extern const size_t zt_pk_n_dtypes;

typedef struct pk_storage {
    const char *key;
    const pk_dtype *dtype;             /* NULL: untyped, numel counts bytes */
    uint64_t bytes;                    /* of the storage of that key */
    uint64_t begin, size;              /* the bytes of it that this one means */
    const struct pk_storage *previous; /* the storage that the pickle named before this one */
} pk_storage;

/* What a call of a known function stands for, and which arguments it takes. */
typedef struct pk_call {
    zt_status (*make)(struct pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out);
    const char *foreign;    /* where make is NULL: the kind of tensor that it makes and zt does not hold */
    uint8_t least, most;    /* arguments */
    uint16_t first, second; /* kinds (1 << pk_kind) that these arguments may be of, where they are given; 0: any */
    const char *usage;      /* the message for other arguments */
} pk_call;

/* A name. */
typedef struct pk_global {
    const char *module, *name;
    pk_call call;          /* of a PK_FUNCTION */
    const pk_dtype *dtype; /* of a storage class or a dtype; NULL: untyped, or neither */
    enum {
        PK_FUNCTION, /* or a class that is called */
        PK_PLAIN,    /* named only: a constant */
        PK_STORAGE_CLASS,
        PK_DTYPE,
        PK_TENSOR_CLASS,
        PK_UNKNOWN
    } what;
    const char *shown;                /* of an unknown one: "module.name", escaped for a message */
    const struct pk_global *previous; /* the unknown one that was named before this one */
} pk_global;

typedef struct pk_tensor {
    const pk_storage *storage;
    const pk_dtype *dtype;
    int rank;
    int64_t offset; /* elements */
    const int64_t *dim, *stride;
    const pk_value *state; /* attributes of the tensor object; NULL: none */
} pk_tensor;

enum { PK_BUFFER = 1 << 14 };

typedef struct pickle_reader {
    zt_ctx *ctx;
    const char *file; /* for messages */
    zt_arena *arena;  /* all that is made */
    size_t budget;    /* bytes that may still be spent */
    bool plain;       /* nothing may be named */
    zt_fetch *fetch;
    void *user;
    uint64_t position, end; /* next byte to fetch, and where they end */
    size_t next, buffered;  /* in the buffer */
    size_t ops;             /* done so far */
    pk_value *stack, *memo;
    size_t stack_size, stack_capacity, memo_size, memoized; /* slots of the memo; those in use */
    const pk_storage *storages;                             /* the last one that was named */
    const pk_global *unknown;                               /* the last of the distinct unknown names */
    int64_t unknown_count;
    zt_map *names; /* of unknown names; NULL until there is one. zt_pickle_end frees it */
    uint8_t buffer[PK_BUFFER];
} pickle_reader;

/* Reads the pickle that begins at pickle->position, which is then behind it. The machine's own memory goes;
 * values live as long as pickle->arena. */
zt_status zt_pickle_read(pickle_reader *pickle, pk_value *out);
void zt_pickle_end(pickle_reader *pickle); /* frees what the reader holds between pickles, not the reader */

/* ---- between pickle*.c ------------------------------------------------------------------------
 */

zt_status zt_pk_fail(pickle_reader *pickle, const char *what);       /* ZT_EDATA, with the byte */
void *zt_pk_alloc(pickle_reader *pickle, size_t count, size_t size); /* NULL: too much, and the context says so */
zt_status zt_pk_append(pickle_reader *pickle, pk_list *list, const pk_value *values, size_t count);
pk_list *zt_pk_list(pickle_reader *pickle);
bool zt_pk_is(const char *text, size_t length, const char *word); /* word NULL: false */

/* The value of a name, known or not. */
zt_status zt_pk_global(pickle_reader *pickle, const char *module, size_t module_length, const char *name, size_t length,
                       pk_value *out);
/* What `function` called with a tuple stands for. */
zt_status zt_pk_reduce(pickle_reader *pickle, pk_value function, pk_value arguments, pk_value *out);
/* What a class makes without its __init__, and an instance of Python 2: as zt_pk_reduce. */
zt_status zt_pk_instance(pickle_reader *pickle, pk_value type, pk_value args, bool known_too, pk_value *out);
/* An opaque object. */
zt_status zt_pk_object(pickle_reader *pickle, const pk_global *type, pk_value args, pk_value *out);
/* What setting an object's state comes to. */
zt_status zt_pk_build(pickle_reader *pickle, pk_value object, pk_value state);
/* What a persistent id means: a storage, or the class of a module. */
zt_status zt_pk_persistent(pickle_reader *pickle, pk_value id, pk_value *out);

/* The functions that a pickle may name, with what a call of each stands for: pickle_torch.c. */
extern const pk_global zt_pk_functions[];
extern const size_t zt_pk_function_count;
/* A view of a storage: four arguments, as _rebuild_tensor takes them; dtype NULL: the storage's. */
zt_status zt_pk_view(pickle_reader *pickle, const pk_value *arguments, const pk_dtype *dtype, pk_value *out);

#endif
