-- What the order service keeps, and its outbox beside it.
CREATE TABLE IF NOT EXISTS orders (
  id text PRIMARY KEY,
  customer text NOT NULL,
  cents bigint NOT NULL,
  status text NOT NULL
);
CREATE TABLE IF NOT EXISTS outbox (
  id uuid PRIMARY KEY,
  aggregatetype text NOT NULL,
  aggregateid text NOT NULL,
  type text NOT NULL,
  payload jsonb NOT NULL,
  headers jsonb,
  created_at timestamptz NOT NULL DEFAULT now()
);
