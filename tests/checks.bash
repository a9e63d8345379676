# The checks of cases, for the harnesses of tests/mount and tests/bpf.
#
# A command in `$(...)` may fail and print just what is expected, most often nothing. So
# is(), like() and unlike() look at its exit status, too: `$?` at their beginning is the
# status of the last substitution in their arguments. `$(... || true)` says that a failure
# is expected. bash goes on after `! COMMAND`, however the command ends: fails() checks.

fail()
{
	printf '%s\n' "$@" >&2
	exit 1
}

skip()
{
	printf '%s\n' "$1"
	exit 77
}

# substituted STATUS: for the checks below, the first thing that they do. Without a
# substitution in the check the status is an earlier command's: that of an `if`, say.
substituted()
{
	local check
	[ "$1" != 0 ] || return 0
	check=$(sed -n "${BASH_LINENO[1]} { /\\\\\$/ N; p }" "${BASH_SOURCE[2]}")
	# of a substitution with a here-document this is the last line
	[[ $check != *'$('* && $check != *')"'* ]] ||
		fail "line ${BASH_LINENO[1]}: the command of this check ended with status $1"
}

# is ACTUAL EXPECTED
is()
{
	substituted $?
	[ "$1" = "$2" ] || fail "line ${BASH_LINENO[0]}: expected:" "$2" "got:" "$1"
}

# like ACTUAL REGEX
like()
{
	substituted $?
	[[ $1 =~ $2 ]] || fail "line ${BASH_LINENO[0]}: expected something like:" "$2" "got:" "$1"
}

# unlike ACTUAL REGEX
unlike()
{
	substituted $?
	[[ ! $1 =~ $2 ]] || fail "line ${BASH_LINENO[0]}: expected nothing like:" "$2" "got:" "$1"
}

# fails COMMAND: runs COMMAND in this shell, which must end with an error. A command that is
# not there, and a `wait` for a process that is not this shell's, are no failures.
fails()
{
	local fails_status=0
	eval "$1" 2>"$T/failed" || fails_status=$?
	[ "$fails_status" != 0 ] || fail "line ${BASH_LINENO[0]}: succeeded: $1"
	[ "$fails_status" != 126 ] && [ "$fails_status" != 127 ] ||
		fail "line ${BASH_LINENO[0]}: did not run: $1" "$(<"$T/failed")"
	rm "$T/failed"
}
