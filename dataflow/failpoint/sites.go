package failpoint

// Site is the name of a place in the program.
type Site string

// Where records come in: the stream of a push source and its write-ahead log.
const (
	// IngestGathered: a group of requests is decoded and encoded; it is written next.
	IngestGathered Site = "ingest_gathered"
	// WALAppend: frames are about to be written.
	WALAppend Site = "wal_append"
	// WALSegment: a new segment is there, and nothing else knows of it.
	WALSegment Site = "wal_segment"
	// WALWritten: frames are written, not synced.
	WALWritten Site = "wal_written"
	// WALSynced: frames are durable, and the log does not know it yet.
	WALSynced Site = "wal_synced"
	// IngestDurable: a group is durable, and nobody knows it.
	IngestDurable Site = "ingest_durable"
	// IngestAnswer: the pipeline can read a group; its producers are answered next.
	IngestAnswer Site = "ingest_answer"
	// WALKeys: a run of idempotency keys is written, and nobody reads it yet.
	WALKeys Site = "wal_keys"
	// WALRetired: segments are about to go; their keys stand in a run.
	WALRetired Site = "wal_retired"
	// WALMarked: the marker says that they may go.
	WALMarked Site = "wal_marked"
	// WALRemoved: one of them is gone.
	WALRemoved Site = "wal_removed"
	// WALRecovered: what stands in a log was read; nothing was made of it.
	WALRecovered Site = "wal_recovered"
)

// An epoch, up to its end.
const (
	// Barrier: the coordinator is about to send a barrier to the sources.
	Barrier Site = "barrier"
	// LastBarrier: the same, for the last epoch of a run.
	LastBarrier Site = "last_barrier"
	// TaskBarrier: a keyed task has the barrier on every input.
	TaskBarrier Site = "task_barrier"
	// TaskFrozen: it has cut its state and not said so.
	TaskFrozen Site = "task_frozen"
	// DataFile: a data file of a table is about to be begun.
	DataFile Site = "data_file"
	// DataWritten: its rows are written; it is not whole.
	DataWritten Site = "data_written"
	// DataStored: it is whole, and no part names it.
	DataStored Site = "data_stored"
	// FilesStaged: rows of a files sink are durable, and no part names them.
	FilesStaged Site = "files_staged"
	// Aligned: every task has reported the barrier; parts are awaited next.
	Aligned Site = "aligned"
	// BeforeClaim: a target is about to be claimed. AfterClaim: it is.
	BeforeClaim Site = "before_claim"
	AfterClaim  Site = "after_claim"
	// BeforeManifest: everything is staged; state and manifest are written next.
	BeforeManifest Site = "before_manifest"
	// StateBatched: the changes are in a batch that is not written.
	StateBatched Site = "state_batched"
	// StateSynced: it is durable, and the store does not know it yet.
	StateSynced Site = "state_synced"
	// StateTable: the changes are many: a table of them is about to be begun.
	StateTable Site = "state_table"
	// StateTables: the tables are durable, and no part of the store.
	StateTables Site = "state_tables"
	// StateIngested: they are a part of it, and it does not know it yet.
	StateIngested Site = "state_ingested"
	// AfterManifest: state and manifest are durable; no commit was started.
	AfterManifest Site = "after_manifest"
)

// A commit, and what follows.
const (
	// BeforeCommit: a target is about to be committed to.
	BeforeCommit Site = "before_commit"
	// TableLooked: a table was loaded, and may be changed.
	TableLooked Site = "table_looked"
	// TableStaging: manifests and the list of them are about to be written.
	TableStaging Site = "table_staging"
	// TableStaged: they are written; the catalog was not asked.
	TableStaged Site = "table_staged"
	// TableAccepted: the catalog has agreed, and its answer is lost on its way.
	TableAccepted Site = "table_accepted"
	// FilesLink: the record of a commit of a files sink is about to get its name.
	FilesLink Site = "files_link"
	// FilesLinked: it has its name; the rows have not got theirs.
	FilesLinked Site = "files_linked"
	// AfterCommit: a target holds the commit; nobody knows yet.
	AfterCommit Site = "after_commit"
	// BeforeAck: a source is about to hear what is safe. AfterAck: it has.
	BeforeAck Site = "before_ack"
	AfterAck  Site = "after_ack"
)

// The quarantine.
const (
	// QuarantineKept: rows that came were put into the state.
	QuarantineKept Site = "quarantine_kept"
	// QuarantineTaken: rows that were read again were taken out of it.
	QuarantineTaken Site = "quarantine_taken"
	// FixedStamped and FixedAppended: rows of the quarantine that are sent again
	// have their numbers, are in the log.
	FixedStamped  Site = "fixed_stamped"
	FixedAppended Site = "fixed_appended"
)

// The start of an attempt.
const (
	// ManifestRead: the last manifest was read, and nothing was done.
	ManifestRead Site = "manifest_read"
	// TargetRead: a target was asked what it holds.
	TargetRead Site = "target_read"
	// StartWritten: where the splits start is durable; nothing was read.
	StartWritten Site = "start_written"
	// Replay: a stretch of a muted replay is about to be read.
	Replay Site = "replay"
	// Unmuted: the epoch is durable behind which sinks are not muted any more.
	Unmuted Site = "unmuted"
)

// sites lists them all.
var sites = []Site{
	IngestGathered, WALAppend, WALSegment, WALWritten, WALSynced, IngestDurable, IngestAnswer, WALKeys, WALRetired, WALMarked, WALRemoved, WALRecovered,
	Barrier, LastBarrier, TaskBarrier, TaskFrozen, DataFile, DataWritten, DataStored, FilesStaged, Aligned, BeforeClaim, AfterClaim,
	BeforeManifest, StateBatched, StateSynced, StateTable, StateTables, StateIngested, AfterManifest,
	BeforeCommit, TableLooked, TableStaging, TableStaged, TableAccepted, FilesLink, FilesLinked, AfterCommit, BeforeAck, AfterAck,
	QuarantineKept, QuarantineTaken, FixedStamped, FixedAppended,
	ManifestRead, TargetRead, StartWritten, Replay, Unmuted,
}

// Sites lists all sites.
func Sites() []Site { return append([]Site(nil), sites...) }
