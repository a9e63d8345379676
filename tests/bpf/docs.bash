#!/bin/bash
# The documentation lists exactly the rows of the tables.
. "${BASH_SOURCE%/*}/lib.bash"
docs=$here/../../docs

test_every_call_is_in_the_documentation_and_no_other()
{
	"$GPUMEM_TRACE" --library "$P" --list | awk 'NR > 1 { print $1 }' | sort >"$T/listed"
	sed -n '/^## The calls/,$p' "$docs/tracing.md" | grep -o 'cu[A-Z][A-Za-z0-9_]*' | sort >"$T/documented"
	diff "$T/listed" "$T/documented" || fail 'bpf/calls.h and docs/tracing.md differ'
}

test_every_option_is_in_the_manual_page()
{
	local option
	"$GPUMEM_TRACE" --help | grep -oE '^ +(-[a-zA-Z], )?--[a-z]+' | grep -oE -e '--?[a-zA-Z]+' >"$T/options"
	[ "$(wc -l <"$T/options")" -ge 26 ] || fail "few options: $(<"$T/options")"
	while read -r option; do
		grep -qF -e "${option//-/\\-}" "$docs/gpumem-trace.8" || fail "the manual page lacks $option"
	done <"$T/options"
}

test_the_manual_page_is_well_formed()
{
	command -v man >/dev/null || skip 'man-db is not installed'
	is "$(man --warnings -E UTF-8 -l -Tutf8 "$docs/gpumem-trace.8" 2>&1 >/dev/null)" ''
}

test_paragraphs_behind_examples_begin_as_such()
{
	is "$(awk '/^\.RE$/ { getline; if (!/^\.(PP|SH|TP)/) print NR ": " $0 }' "$docs/gpumem-trace.8")" ''
}

main "$@"
