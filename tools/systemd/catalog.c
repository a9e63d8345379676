/* SPDX-License-Identifier: MIT */
/*
 * Prints the catalog of gpumemd's messages for journalctl(1), from the table of warnings.
 */
#include <stdio.h>

#include "base/text.h"
#include "base/warning.h"

int main(void)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	for (int i = 0; i < N_WARNING_KINDS; i++) {
		const struct warning_class *class = &warning_classes[i];

		text_printf(&text,
			    "-- %s\nSubject: %s\nDefined-By: gpumem\nDocumentation: "
			    "man:gpumemd(8)\n\n",
			    class->id, class->subject);
		text_fold(&text, 0, 0, class->help);
		text_printf(&text, "\n");
	}
	fputs(text_string(&text), stdout);
	return text_failed(&text);
}
