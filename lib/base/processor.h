/* processor.h - what kernels ask of the processor beside its instruction set (base.h). */
#ifndef ZT_PROCESSOR_H
#define ZT_PROCESSOR_H

#include <stdbool.h>

/* Is vdpbf16ps slower than the two FMAs that give its bits? */
bool zt_cpu_slow_bf16(void);

#endif
