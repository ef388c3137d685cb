package codec

import "bytes"

// minMember is less than the fewest bytes that a member of an object takes, with
// the comma behind it: shorter documents need no counting.
const minMember = 4

// tooManyMembers says whether the objects in a document have more than n members
// together: as many as it has colons outside of texts.
func tooManyMembers(doc []byte, n int) bool {
	if bytes.Count(doc, []byte{':'}) <= n {
		return false
	}
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case ':':
			if n--; n < 0 {
				return true
			}
		case '"':
			for i++; i < len(doc) && doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}
