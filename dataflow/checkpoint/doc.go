// Package checkpoint holds the protocol of epochs: a pure function that decides
// ([Step]), the manifest that makes an epoch durable ([Manifest]) and the rules
// by which a start compares targets with it ([Recover]). It does no I/O and
// knows no component; package engine carries its decisions out.
//
// The order that everything rests on: barrier e has passed every task, all
// staged parts of e are durable, then one synced write of state and manifest,
// then the commits, target by target in order of epochs, then the acks.
package checkpoint
