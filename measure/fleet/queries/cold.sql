-- Which share of the starts is cold, by version and class of hardware?
-- What the rules are: docs/fleet-sql.md.
select app, version, cpus, memory, disk, count(*) as n, count(distinct machine) as machines,
    sum(case when state = 'cold' then 1 else 0 end) as cold,
    sum(case when state = 'unknown' then 1 else 0 end) as untold
from pings
where ('{app}' = '' or app = '{app}')
group by app, version, cpus, memory, disk
order by app, version, cpus, memory, disk
