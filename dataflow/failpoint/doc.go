// Package failpoint marks the steps of checkpoint, log, state and commit at which
// tests let something go wrong. Unless a program is built with the tag failpoints,
// Hit does nothing and is inlined away.
//
// In a program with the tag, FRAZIL_FAILPOINT arms sites:
//
//	FRAZIL_FAILPOINT=before_commit          SIGKILL the first time it comes there
//	FRAZIL_FAILPOINT=before_commit:3=error  the third time Hit returns an error
//	FRAZIL_FAILPOINT=a=stall,b:2=panic      two sites
//
// and FRAZIL_FAILPOINT_LOG names a file to which a line "site action" is appended,
// and synced, before an armed site acts: so that a test can tell a site that never
// fired from one that did. In process, Arm does the same.
package failpoint
