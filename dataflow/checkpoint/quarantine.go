package checkpoint

// QuarantineCounts says what became of the rows that came to the quarantine.
type QuarantineCounts struct {
	// Kept counts all that ever came.
	Kept int64 `json:"kept"`
	// SentAgain were read again by their source, Discarded by somebody's word,
	// Dropped by a limit.
	SentAgain int64 `json:"sent_again,omitempty"`
	Discarded int64 `json:"discarded,omitempty"`
	Dropped   int64 `json:"dropped,omitempty"`
	// Rows and Bytes are there now.
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

// Balance is 0 when every row has a fate.
func (c QuarantineCounts) Balance() int64 {
	return c.Kept - (c.SentAgain + c.Discarded + c.Dropped + c.Rows)
}
