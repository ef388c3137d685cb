package failpoint

// Site is the name of a place in the program.
type Site string

// The sites, in the order in which an epoch comes by them.
const (
	// Barrier: the coordinator is about to send a barrier to the sources.
	Barrier Site = "barrier"
	// Aligned: every task has reported the barrier; parts are awaited next.
	Aligned Site = "aligned"
	// BeforeManifest: everything is staged; state and manifest are written next.
	BeforeManifest Site = "before_manifest"
	// AfterManifest: state and manifest are durable; no commit was started.
	AfterManifest Site = "after_manifest"
	// BeforeCommit: a target is about to be committed to.
	BeforeCommit Site = "before_commit"
	// AfterCommit: a target holds the commit; nobody knows yet.
	AfterCommit Site = "after_commit"
	// FixedStamped and FixedAppended: rows of the quarantine that are sent again
	// have their numbers, are in the log.
	FixedStamped  Site = "fixed_stamped"
	FixedAppended Site = "fixed_appended"
)

// sites lists them all.
var sites = []Site{Barrier, Aligned, BeforeManifest, AfterManifest, BeforeCommit, AfterCommit, FixedStamped, FixedAppended}

// Sites lists all sites, in the order in which an epoch comes by them.
func Sites() []Site { return append([]Site(nil), sites...) }
