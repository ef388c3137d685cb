package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// FormatVersion is the version of the bytes in a store. docs/state-format.md
// describes them and says when the number must change.
const FormatVersion = 1

// The first byte of every key in the store.
const (
	spaceMeta    = 0x00 // facts about the store itself
	spaceCatalog = 0x01 // step name -> id
	spaceState   = 0x02 // id, key group, key of the operator
)

// Keys in spaceMeta.
var (
	keyVersion  = []byte("\x00version")
	keySeed     = []byte("\x00seed")
	keyNextID   = []byte("\x00next_id")
	keyManifest = []byte("\x00manifest")
)

// statePrefixLen is the length of what stands before an operator's own key:
// space (1), id (4), group (1).
const statePrefixLen = 6

func appendStatePrefix(dst []byte, id uint32, group int) []byte {
	dst = append(dst, spaceState)
	dst = binary.BigEndian.AppendUint32(dst, id)
	return append(dst, byte(group))
}

// appendGroupEnd appends the smallest key after all keys of group.
func appendGroupEnd(dst []byte, id uint32, group int) []byte {
	if group == NumGroups-1 {
		return appendIDEnd(dst, id)
	}
	return appendStatePrefix(dst, id, group+1)
}

// appendIDEnd appends the smallest key after all keys of id. Ids stay far below
// the largest uint32: see parseID.
func appendIDEnd(dst []byte, id uint32) []byte {
	dst = append(dst, spaceState)
	return binary.BigEndian.AppendUint32(dst, id+1)
}

func catalogKey(step string) []byte { return append([]byte{spaceCatalog}, step...) }

func encodeID(id uint32) []byte { return binary.BigEndian.AppendUint32(nil, id) }

func parseID(b []byte) (uint32, error) {
	if len(b) != 4 || b[0] == 0xff {
		return 0, fmt.Errorf("step id %x: expected 4 bytes below ff000000", b)
	}
	return binary.BigEndian.Uint32(b), nil
}

// errNewer is in the error for a store of a later program.
var errNewer = errors.New("the state was written by a newer version of the program: use that version, or start with an empty state directory")

func checkVersion(b []byte) error {
	v, err := strconv.Atoi(string(b))
	switch {
	case err != nil || v < 1:
		return fmt.Errorf("state format version %q is no number: the store is damaged", b)
	case v > FormatVersion:
		return fmt.Errorf("state format version %d, this program knows versions up to %d: %w", v, FormatVersion, errNewer)
	}
	return nil
}
