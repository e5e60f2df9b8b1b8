/* pt_file.h - private to lib/io/pt*.c: what is kept of an open checkpoint. */
#ifndef ZT_PT_FILE_H
#define ZT_PT_FILE_H

#include "lib/io/array_file.h"
#include "lib/io/pickle.h"
#include "lib/io/pt.h"
#include "lib/io/zip.h"

typedef struct pt_storage {
    const char *key;
    uint64_t bytes;
    size_t item;    /* bytes of an element of the class that named it first */
    bool reported;  /* a fault of it has been told, and it has no place */
    bool placed;    /* it is known where it is: */
    int64_t member; /* in the zip; -1: the file itself, */
    uint64_t begin; /* from this byte on */
} pt_storage;

typedef struct pt_tensor {
    zt_array array;
    zt_layout layout; /* raw bytes are its storage's */
    int64_t storage_index;
} pt_tensor;

struct zt_pt {
    zt_array_file base;
    zt_zip *zip;     /* NULL: the older format */
    bool big_endian; /* elements are big endian */
    zt_gather *gather;
    pt_storage *storages;
    int64_t storage_count;
    zt_map *keys; /* of storages */
    pt_tensor *tensors;
    zt_str unknown, unread; /* unknown names, and tensors that are not read, as lists for messages */
    char unread_last[200];  /* the last one that was counted */
    int64_t unread_count;
};

/* What the pickle made becomes the file's: tensors, within what is left of its budget, and their
 * storages, which have no place yet. */
zt_status zt_pt_collect(zt_pt *pt, pk_value root, const pickle_reader *pickle);

/* Reads a checkpoint of either format, all but tensors' bytes. */
zt_status zt_pt_parse_zip(zt_pt *pt);
zt_status zt_pt_parse_older(zt_pt *pt);

#endif
