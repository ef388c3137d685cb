// Command shop is the order service of a shop: it places orders, and pays or cancels
// them. Each change is one transaction with an event in the outbox; some are rolled back.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func main() {
	orders := flag.Int("orders", 2000, "how many orders to place")
	flag.Parse()
	url := os.Getenv("DATABASE")
	if url == "" {
		url = "postgres://postgres@127.0.0.1:5432/postgres"
	}
	s, err := open(context.Background(), url)
	if err == nil {
		err = s.trade(context.Background(), *orders)
	}
	if err != nil {
		log.Fatalf("shop: %v", err)
	}
	fmt.Printf("%d orders were placed, %d events are committed\n", *orders, s.events)
}

//go:embed schema.sql
var schema string

// shop is an order service with its database.
type shop struct {
	db     *pgx.Conn
	events int // that are committed
}

func open(ctx context.Context, url string) (*shop, error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to the database (is it started? see the README): %w", err)
	}
	if _, err := db.Exec(ctx, schema); err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return &shop{db: db}, nil
}

// trade places orders; each is paid, cancelled, or left as it is.
func (s *shop) trade(ctx context.Context, orders int) error {
	for range orders {
		id := uuid.NewString()
		cents := 100 + rand.Int64N(20_000)
		place := func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2, $3, 'placed')", id, fmt.Sprint("customer-", rand.IntN(500)), cents)
			return err
		}
		if err := s.change(ctx, id, "OrderPlaced", cents, place); err != nil {
			return err
		}
		status, event := "paid", "OrderPaid"
		if rand.IntN(4) == 0 {
			status, event = "cancelled", "OrderCancelled"
		}
		move := func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE orders SET status = $2 WHERE id = $1", id, status)
			return err
		}
		if err := s.change(ctx, id, event, cents, move); err != nil {
			return err
		}
	}
	return nil
}

// change is one transaction: the change and its event are both true, or neither is. Now
// and then something goes wrong at the end, and it is done again.
func (s *shop) change(ctx context.Context, order, event string, cents int64, do func(pgx.Tx) error) error {
	for {
		tx, err := s.db.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := do(tx); err != nil {
			return fmt.Errorf("change order %s: %w", order, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers)
			VALUES ($1, 'Order', $2, $3, jsonb_build_object('order', $2::text, 'event', $3::text, 'cents', $4::bigint), jsonb_build_object('traceparent', $5::text))`,
			uuid.New(), order, event, cents, trace()); err != nil {
			return fmt.Errorf("write the event of order %s: %w", order, err)
		}
		if rand.IntN(10) == 0 { // The payment provider did not answer, say.
			if err := tx.Rollback(ctx); err != nil {
				return err
			}
			continue
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("commit the change of order %s: %w", order, err)
		}
		s.events++
		return nil
	}
}

// trace is a trace context of the W3C form.
func trace() string {
	return fmt.Sprintf("00-%016x%016x-%016x-01", rand.Uint64(), rand.Uint64(), rand.Uint64())
}
