package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cespare/xxhash/v2"
)

// SkippedGap is the reason under which changes passed over are counted in
// Polled.Skipped.
const SkippedGap = "gap"

// reasonTooLarge is the decoder's code for records beyond its limit, given here
// for those that are not even collected.
const reasonTooLarge = "too_large"

// defaultMaxLine bounds a line where the decoder does not say its limit.
const defaultMaxLine = 16 << 20

var sumOfNothing = xxhash.Sum64(nil)

// Source reads files. See dataflow.Source for who calls it.
type Source struct {
	cfg     Config
	env     *dataflow.Env
	schema  *arrow.Schema
	dec     dataflow.Decoder
	bad     *dataflow.BadRows
	maxLine int

	files    listing // nil: not yet listed
	listedAt time.Time
	skipped  map[string]int64

	rows  []int64 // the place of each row since the last batch
	pos   *array.Int64Builder
	paths *array.StringBuilder // nil without the column
	lines *array.Int64Builder  // nil without the column

	closing sync.Once
	closed  chan struct{}

	// mu guards everything above between Close and the other calls.
	mu    sync.Mutex
	lanes []*lane
	turn  int

	where places
}

// New makes the source. It touches no file.
func New(env *dataflow.Env, cfg Config) (*Source, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if env.NewDecoder == nil {
		return nil, dataflow.Permanentf("source %q: files needs a decode block", env.Step)
	}
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", env.Step, err)
	}
	out, err := outSchema(dec.Schema(), cfg.Metadata)
	if err != nil {
		return nil, err
	}
	alloc := env.Alloc
	if alloc == nil {
		alloc = memory.DefaultAllocator
	}
	s := &Source{cfg: cfg, env: env, dec: dec, bad: dataflow.NewBadRows(env), maxLine: defaultMaxLine, closed: make(chan struct{})}
	if m, ok := dec.(interface{ MaxRecord() int }); ok {
		s.maxLine = m.MaxRecord()
	}
	s.schema = arrow.NewSchema(append(out.Fields(), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}), nil)
	s.pos = array.NewInt64Builder(alloc)
	if cfg.Metadata.Path != "" {
		s.paths = array.NewStringBuilder(alloc)
	}
	if cfg.Metadata.Line != "" {
		s.lines = array.NewInt64Builder(alloc)
	}
	s.where.segs, s.where.earlier = map[dataflow.Split][]segment{}, map[dataflow.Split][]string{}
	return s, nil
}

func (s *Source) follow() bool { return s.cfg.Mode == ModeFollow }

func (s *Source) now() time.Time {
	if s.env.Now != nil {
		return s.env.Now()
	}
	return time.Now()
}

// Discover lists the lanes: they are always the same.
func (s *Source) Discover(context.Context) ([]dataflow.Split, error) {
	out := make([]dataflow.Split, s.cfg.Lanes)
	for i := range out {
		out[i] = dataflow.Split(strconv.Itoa(i))
	}
	return out, nil
}

// Start is the beginning of every lane.
func (s *Source) Start(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := make(map[dataflow.Split]dataflow.Position, len(splits))
	for _, split := range splits {
		out[split] = position{Lanes: s.cfg.Lanes}.encode()
	}
	return out, nil
}

// Begin is the same as Start.
func (s *Source) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.Start(ctx, splits)
}

// Ends counts the lines of all files: it reads them all.
func (s *Source) Ends(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.list(); err != nil {
		return nil, err
	}
	out := make(map[dataflow.Split]dataflow.Position, len(splits))
	for _, split := range splits {
		id, err := s.laneID(split)
		if err != nil {
			return nil, err
		}
		l := newLane(id, s.cfg.Lanes)
		err = s.countLane(ctx, l)
		if out[split] = l.place(); err == nil {
			err = l.close()
		} else {
			err = errors.Join(err, l.close())
		}
		if err != nil {
			return nil, fmt.Errorf("find the end of lane %s: %w", split, err)
		}
	}
	return out, nil
}

func (s *Source) countLane(ctx context.Context, l *lane) error {
	for {
		_, _, err := s.nextLine(l)
		if err == errWait || err == errEnd {
			return nil
		}
		if err == nil {
			l.row++
			if l.row&0xffff == 0 {
				err = ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *Source) laneID(split dataflow.Split) (int, error) {
	id, err := strconv.Atoi(string(split))
	if err != nil || id < 0 || id >= s.cfg.Lanes {
		return 0, dataflow.Permanentf("lane %q does not exist: lanes is %d", split, s.cfg.Lanes)
	}
	return id, nil
}

// Assign adds lanes; nothing is opened before Poll.
func (s *Source) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range splits {
		id, err := s.laneID(sp.Split)
		if err != nil {
			return err
		}
		l := s.find(sp.Split)
		if l == nil {
			l = newLane(id, s.cfg.Lanes)
			if sp.From != nil {
				if l.at, err = decodePosition(sp.From); err != nil {
					return err
				}
				l.textAt = bytes.Clone(sp.From)
			}
			l.row = l.at.Row
			s.lanes = append(s.lanes, l)
		} else if err := s.sameRow(l, sp.From); err != nil {
			return err
		}
		l.until, l.untilAt, l.parked, l.caughtUp, l.paused = -1, nil, false, false, false
		if sp.Until != nil {
			u, err := decodePosition(sp.Until)
			if err != nil {
				return err
			}
			l.until, l.untilAt = u.Row, bytes.Clone(sp.Until)
			if l.until < l.row {
				return fmt.Errorf("lane %s stands at line %d, behind its bound %d", sp.Split, l.row, l.until)
			}
		}
	}
	return nil
}

// sameRow checks that a lane assigned again goes on where it stands.
func (s *Source) sameRow(l *lane, from dataflow.Position) error {
	row := int64(0)
	if from != nil {
		p, err := decodePosition(from)
		if err != nil {
			return err
		}
		row = p.Row
	}
	if row != l.row {
		return fmt.Errorf("lane %s is assigned at line %d but stands at %d: unassign it first", l.split, row, l.row)
	}
	if from != nil {
		l.textAt = bytes.Clone(from)
	}
	return nil
}

func (s *Source) find(split dataflow.Split) *lane {
	for _, l := range s.lanes {
		if l.split == split {
			return l
		}
	}
	return nil
}

// Unassign gives lanes up.
func (s *Source) Unassign(_ context.Context, splits []dataflow.Split) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, split := range splits {
		for i, l := range s.lanes {
			if l.split == split {
				errs = append(errs, l.close())
				s.lanes = append(s.lanes[:i:i], s.lanes[i+1:]...)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// Pause implements dataflow.Pauser.
func (s *Source) Pause(splits ...dataflow.Split) {
	s.each(splits, func(l *lane) { l.paused = true })
}

// Resume implements dataflow.Pauser. The lane says anew that it is caught up.
func (s *Source) Resume(splits ...dataflow.Split) {
	s.each(splits, func(l *lane) { l.paused, l.caughtUp = false, false })
}

func (s *Source) each(splits []dataflow.Split, f func(*lane)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, split := range splits {
		if l := s.find(split); l != nil {
			f(l)
		}
	}
}

// Close frees everything. It may be called twice.
func (s *Source) Close() error {
	var errs []error
	s.closing.Do(func() {
		close(s.closed)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range s.lanes {
			errs = append(errs, l.close())
		}
		s.lanes = nil
		s.bad.Release()
		s.pos.Release()
		if s.paths != nil {
			s.paths.Release()
		}
		if s.lines != nil {
			s.lines.Release()
		}
		if d, ok := s.dec.(interface{ Release() }); ok {
			d.Release()
		}
	})
	return errors.Join(errs...)
}
