/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills race with kernels of other streams when a program lets them, as on
 * hardware. So the thread sanitizer overlooks the accesses between these calls, as it
 * does the kernels' atomic accesses (ptx/access.h).
 */
#pragma once

#ifdef __SANITIZE_THREAD__

void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static inline void unordered_begin(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void unordered_end(void)
{
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

#else

static inline void unordered_begin(void)
{
}

static inline void unordered_end(void)
{
}

#endif
