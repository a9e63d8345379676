#!/bin/bash
# The documentation agrees with the mount.
. "${BASH_SOURCE%/*}/lib.bash"

docs=$here/../../docs

test_filesystem_md_has_the_readme_of_the_mount()
{
	diff <(sed -n '/^```text$/,/^```$/p' "$docs/filesystem.md" | sed '1d;$d') README
}

test_help_and_the_readme_of_the_mount_have_80_columns()
{
	is "$(awk 'length > 80' README)" ''
	is "$("$GPUMEMD" --help | awk 'length > 80')" ''
	[ -z "${GPUMEM_TRACE-}" ] || is "$("$GPUMEM_TRACE" --help | awk 'length > 80')" ''
}

test_filesystem_md_explains_every_error_that_is_tested()
{
	local name
	for name in $(grep -ohE '^\s.*(refused|denied) E[A-Z0-9]+ ' "$here"/*.bash |
		grep -oE '(refused|denied) E[A-Z0-9]+' | cut -d ' ' -f 2 |
		sort -u); do
		grep -qE "^\|( [A-Z0-9]+,)* $name(, [A-Z0-9]+)* \|" "$docs/filesystem.md" ||
			fail "docs/filesystem.md lacks $name"
	done
}

test_the_manual_page_has_every_option_of_the_help()
{
	local option
	for option in $("$GPUMEMD" --help | grep -oE -- '--[a-z-]+' | sort -u); do
		grep -qF -- "${option//-/\\-}" "$docs/gpumemd.8" || fail "gpumemd.8 lacks $option"
	done
}

main "$@"
